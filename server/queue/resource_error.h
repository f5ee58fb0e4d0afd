#pragma once

#include <fmt/format.h>

#include <string_view>

#include "absl/status/status.h"
#include "common/error_reason.h"

namespace nerf {

// The errors that every part of the queue gives alike.
inline absl::Status ResourceNotFound(std::string_view name) {
  return WithReason(absl::NotFoundError(fmt::format("{} not found", name)),
                    reason::kResourceNotFound);
}
inline absl::Status ResourceExists(std::string_view name) {
  return WithReason(absl::AlreadyExistsError(fmt::format("{} exists already", name)),
                    reason::kAlreadyExists);
}
inline absl::Status StateConflict(std::string_view message, ErrorMetadata metadata = {}) {
  return WithReason(absl::FailedPreconditionError(fmt::format("{}", message)),
                    reason::kStateConflict, std::move(metadata));
}

}  // namespace nerf
