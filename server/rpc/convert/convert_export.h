#pragma once

#include "absl/status/statusor.h"
#include "nerf/v1/export_job.pb.h"
#include "server/queue/jobs/export_spec.h"

namespace nerf {

// Of a worker's report, with long texts cut. InvalidArgument FIELD_INVALID for names with folders,
// malformed blobs and too many files.
absl::StatusOr<ExportResult> FromProto(const v1::ExportResult& result);

}  // namespace nerf
