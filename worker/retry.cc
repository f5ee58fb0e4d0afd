#include "worker/retry.h"

#include <algorithm>

#include "common/error_reason.h"

namespace nerf {

std::optional<absl::Duration> Retry::After(const CallResult& failure) {
  // A worker without room holds a job that another worker could run.
  const bool may_pass = MayPass(failure.code) || failure.reason == reason::kWorkerExhausted;
  // Blobs that are missing are sent again with the next try.
  const bool passes = IsTransient(failure.code) || failure.reason == reason::kBlobsMissing;
  if (!passes && !may_pass) return std::nullopt;
  if (may_pass && ++n_errors_ >= options_.max_errors) return std::nullopt;
  const absl::Duration pause =
      std::min(pause_, may_pass ? options_.max_error_pause : options_.max_pause);
  pause_ = pause * 2;
  return pause;
}

}  // namespace nerf
