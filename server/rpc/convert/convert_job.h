#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/config/train_config.h"
#include "nerf/v1/training_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/state/job_queue.h"

namespace nerf {

v1::TrainingJob ToProto(const Job& job);
v1::Checkpoint ToProto(const ResourceKey& job, const CheckpointRecord& checkpoint);
v1::Progress ToProto(const JobProgress& progress);
v1::WatchTrainingJobResponse ToProto(const WatchEvent& event);
v1::ListTrainingMetricsResponse ToProto(const JobCurve& curve);
v1::DesiredJob ToProto(const LeaseGrant& grant);

// Errors: InvalidArgument that lists every wrong field.
absl::StatusOr<JobSpec> FromProto(const v1::CreateTrainingJobRequest& request);
absl::StatusOr<JobSpec> FromProto(const v1::RetryTrainingJobRequest& request);
absl::StatusOr<JobSpec> FromProto(const v1::ExtendTrainingJobRequest& request);
absl::StatusOr<JobUpdate> FromProto(const v1::UpdateTrainingJobRequest& request);
// The effective config of a request that FromProto accepted.
TrainConfig EffectiveConfig(const v1::CreateTrainingJobRequest& request);

// Non-finite numbers become 0, because neither the store nor JSON can hold them.
absl::StatusOr<JobProgress> FromProto(const v1::Progress& progress);
// The failure that a worker reports, with long lists and texts cut.
JobError ToJobError(const v1::JobReport& report);
google::rpc::Status ToProtoError(const JobError& error);
absl::StatusOr<CheckpointRecord> FromProto(const v1::CommitCheckpointRequest& request);
// Of a report: also a lease of a part of a render job, or of a pose job.
absl::StatusOr<LeaseRef> ParseLease(std::string_view field, const v1::JobReport& report);
absl::StatusOr<LeaseRef> ParseLease(std::string_view field, std::string_view training_job,
                                    uint64_t lease_epoch);

}  // namespace nerf
