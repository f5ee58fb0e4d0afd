#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/error_reason.h"

namespace nerf {

// Errors that all parts of the queue share. Metadata `resource` names the resource.
inline absl::Status ResourceNotFound(std::string_view name) {
  return WithReason(absl::NotFoundError(fmt::format("{} not found", name)),
                    reason::kResourceNotFound, {{"resource", std::string(name)}});
}
// For a request of the newest checkpoint of a job that has none.
inline absl::Status NoCheckpoint(std::string_view job_name) {
  return WithReason(absl::NotFoundError(fmt::format("{} has no checkpoint", job_name)),
                    reason::kResourceNotFound,
                    {{"resource", fmt::format("{}/checkpoints/-", job_name)}});
}
inline absl::Status ResourceExists(std::string_view name) {
  return WithReason(absl::AlreadyExistsError(fmt::format("{} exists already", name)),
                    reason::kAlreadyExists, {{"resource", std::string(name)}});
}
inline absl::Status StateConflict(std::string_view message, ErrorMetadata metadata = {}) {
  return WithReason(absl::FailedPreconditionError(fmt::format("{}", message)),
                    reason::kStateConflict, std::move(metadata));
}

}  // namespace nerf
