#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/config/train_config.h"
#include "nerf/v1/training_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/job_queue.h"
#include "server/queue/lease_table.h"

namespace nerf {

v1::TrainingJob ToProto(const Job& job);
v1::Checkpoint ToProto(const ResourceKey& job, const CheckpointRecord& checkpoint);
v1::Progress ToProto(const JobProgress& progress);
v1::WatchTrainingJobResponse ToProto(const WatchEvent& event);
v1::DesiredJob ToProto(const LeaseGrant& grant);

// Every wrong field at once.
absl::StatusOr<JobSpec> FromProto(const v1::CreateTrainingJobRequest& request);
// The effective config of a checked request, for what follows from it.
TrainConfig EffectiveConfig(const v1::CreateTrainingJobRequest& request);

// Numbers that are not finite become 0: neither the store nor JSON has a place for them.
absl::StatusOr<JobProgress> FromProto(const v1::Progress& progress);
// Why a worker says that a job failed; long lists and texts are cut.
JobError ToJobError(const v1::JobReport& report);
absl::StatusOr<CheckpointRecord> FromProto(const v1::CommitCheckpointRequest& request);
absl::StatusOr<LeaseRef> ParseLease(std::string_view field, std::string_view training_job,
                                    uint64_t lease_epoch);

}  // namespace nerf
