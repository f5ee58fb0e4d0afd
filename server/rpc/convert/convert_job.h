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

google::rpc::Status ToProtoError(const JobError& error);

}  // namespace nerf
