#include "worker/base/retry.h"

#include <algorithm>

#include "common/error_reason.h"

namespace nerf {

std::optional<absl::Duration> Retry::After(const CallResult& failure) {
  // Another worker may have room for the job.
  const bool may_pass = MayPass(failure.code) || failure.reason == reason::kWorkerExhausted;
  // The next try uploads the missing blobs.
  const bool passes = IsTransient(failure.code) || failure.reason == reason::kBlobsMissing;
  if (!passes && !may_pass) return std::nullopt;
  if (may_pass && ++n_errors_ >= options_.max_errors) return std::nullopt;
  const absl::Duration pause =
      std::min(pause_, may_pass ? options_.max_error_pause : options_.max_pause);
  pause_ = pause * 2;
  return pause;
}

}  // namespace nerf
