#pragma once

namespace nerf {

// The families of /metrics that exist from the start. Those about one worker appear with that
// worker.
inline constexpr const char* kMetricFamilies[] = {
    "nerfd_build_info",
    "nerfd_jobs",
    "nerfd_jobs_created_total",
    "nerfd_jobs_finished_total",
    "nerfd_pose_jobs",
    "nerfd_pose_job_duration_seconds",
    "nerfd_pose_matches_per_second",
    "nerfd_queue_jobs",
    "nerfd_queue_oldest_job_age_seconds",
    "nerfd_job_queue_duration_seconds",
    "nerfd_job_attempts_total",
    "nerfd_leases",
    "nerfd_lease_expirations_total",
    "nerfd_lease_fenced_writes_total",
    "nerfd_workers",
    "nerfd_watchers",
    "nerfd_watchers_evicted_total",
    "nerfd_watch_event_delay_seconds",
    "nerfd_watch_gaps_total",
    "nerfd_auth_failures_total",
    "nerfd_store_read_only",
    "nerfd_store_commit_duration_seconds",
    "nerfd_blob_store_size_bytes",
    "nerfd_blob_store_free_bytes",
    "nerfd_blob_received_bytes_total",
    "nerfd_blob_sent_bytes_total",
    "nerfd_blob_upload_failures_total",
    "nerfd_blob_damaged_total",
    "nerfd_train_steps_total",
    "nerfd_train_rays_total",
    "nerfd_train_step_duration_seconds",
    "nerfd_render_requests_total",
    "nerfd_render_duration_seconds",
    "grpc_server_started_total",
    "grpc_server_handled_total",
    "grpc_server_msg_received_total",
    "grpc_server_msg_sent_total",
    "grpc_server_handling_seconds",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
};

}  // namespace nerf
