#pragma once

#include "absl/status/statusor.h"
#include "nerf/v1/export_job.pb.h"

namespace nerf {

// Of a worker's report, with long texts cut. InvalidArgument FIELD_INVALID for names with folders,
// malformed blobs and too many files.
absl::StatusOr<v1::ExportResult> ReportedResult(const v1::ExportResult& reported);

}  // namespace nerf
