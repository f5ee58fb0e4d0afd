#pragma once

#include <optional>

#include "absl/time/time.h"
#include "worker/base/call_result.h"

namespace nerf {

struct RetryOptions {
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration max_pause = absl::Seconds(5);  // after errors that are IsTransient
  // After errors that MayPass the pause grows further, and after this many the call fails. About
  // eight minutes in all.
  absl::Duration max_error_pause = absl::Seconds(30);
  int max_errors = 20;
};

// Decides when a failed call is tried again. Not thread-safe.
class Retry {
 public:
  explicit Retry(RetryOptions options) : options_(options), pause_(options.first_pause) {}

  // The pause before the next try, or nullopt to give up.
  std::optional<absl::Duration> After(const CallResult& failure);

 private:
  const RetryOptions options_;
  absl::Duration pause_;  // before the next try, unless its limit is lower
  int n_errors_ = 0;
};

}  // namespace nerf
