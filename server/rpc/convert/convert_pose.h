#pragma once

#include "absl/status/statusor.h"
#include "nerf/v1/pose_job_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/watcher.h"

namespace nerf {

// The job without `wait`. With `whole` its files too.
v1::PoseJob ToPoseJob(const Job& job, bool whole);
v1::WatchPoseJobResponse ToPoseWatch(const WatchEvent& event);

// Checks all of the request. Errors: InvalidArgument FIELD_INVALID; ResourceExhausted SIZE_LIMIT
// for a manifest that does not fit into a message to a worker.
absl::StatusOr<JobSpec> FromProto(const v1::CreatePoseJobRequest& request);

// The order for a pose job.
v1::DesiredJob PoseOrder(const LeaseGrant& grant);

// Of a worker's report, with long texts cut.
PoseStage FromProto(const v1::PoseProgress& progress);

// What a worker commits. InvalidArgument FIELD_INVALID.
struct CommittedPoses {
  LeaseRef lease;
  PoseResult result;
  std::vector<SceneFileRecord> files;
};
absl::StatusOr<CommittedPoses> FromProto(const v1::CommitPosesRequest& request);

}  // namespace nerf
