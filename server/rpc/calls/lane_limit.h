#pragma once

#include "absl/status/status.h"
#include "common/error_reason.h"

namespace nerf {

// The error of a call that Executor::TryPost refused: ResourceExhausted QUEUE_FULL.
inline absl::Status TooManyCalls() {
  return WithReason(
      absl::ResourceExhaustedError("too many calls wait in the server; try again later"),
      reason::kQueueFull);
}

}  // namespace nerf
