#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nerf/internal/engine.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {

// The bytes of a DescribeSceneResponse with all views of the engine's answer, whose file lies in
// `folder`. Errors: FailedPrecondition DATASET_INVALID for a scene with problems; Internal for a
// file that is missing, elsewhere or names pictures that the scene does not have;
// ResourceExhausted SIZE_LIMIT.
absl::StatusOr<std::string> AssembleDescription(const internal::Checked& checked,
                                                const v1::DescribeTask& task,
                                                const std::string& folder, size_t max_bytes);

}  // namespace nerf
