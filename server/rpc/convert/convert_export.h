#pragma once

#include "absl/status/statusor.h"
#include "nerf/v1/export_job_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/watcher.h"

namespace nerf {

// The job without `wait`. With `whole` its path too.
v1::ExportJob ToExportJob(const Job& job, bool whole);
v1::WatchExportJobResponse ToExportWatch(const WatchEvent& event);

// Checks all of the request. InvalidArgument FIELD_INVALID.
absl::StatusOr<JobSpec> FromProto(const v1::CreateExportJobRequest& request);

// The order for an export job.
v1::DesiredJob ExportOrder(const LeaseGrant& grant);

// Of a worker's reports, with long texts cut.
JobProgress FromProto(const v1::ExportProgress& progress);
// InvalidArgument FIELD_INVALID for names with folders, malformed blobs and too many files.
absl::StatusOr<ExportResult> FromProto(const v1::ExportResult& result);

}  // namespace nerf
