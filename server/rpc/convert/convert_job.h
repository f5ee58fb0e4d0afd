#pragma once

#include "absl/status/statusor.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/watcher.h"

namespace nerf {

// The job without `wait`: with `whole` its path, frames and files to pose, too.
v1::Job ToProto(const Job& job, bool whole);
v1::WatchJobResponse ToProto(const WatchEvent& event);
// The order for the work of a grant.
v1::DesiredJob ToProto(const LeaseGrant& grant);

// Errors: InvalidArgument that lists every wrong field; ResourceExhausted SIZE_LIMIT for a manifest
// that does not fit into a message to a worker.
absl::StatusOr<JobSpec> FromProto(const v1::CreateJobRequest& request);
absl::StatusOr<JobSpec> FromProto(const v1::RetryJobRequest& request);
absl::StatusOr<JobSpec> FromProto(const v1::ExtendJobRequest& request);
absl::StatusOr<JobUpdate> FromProto(const v1::UpdateJobRequest& request);

}  // namespace nerf
