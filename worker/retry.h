#pragma once

#include <optional>

#include "absl/time/time.h"
#include "worker/call_result.h"

namespace nerf {

struct RetryOptions {
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration max_pause = absl::Seconds(5);  // after errors that pass by themselves
  // Errors that may stay: their pause grows further, and after so many the call is given up. About
  // eight minutes in all.
  absl::Duration max_error_pause = absl::Seconds(30);
  int max_errors = 20;
};

// How often and when one piece of work is tried again. Not thread-safe.
class Retry {
 public:
  explicit Retry(RetryOptions options) : options_(options), pause_(options.first_pause) {}

  // The pause before the next try after this failure; nullopt: it is of no use.
  std::optional<absl::Duration> After(const CallResult& failure);

 private:
  const RetryOptions options_;
  absl::Duration pause_;  // before the next try, unless its limit is lower
  int n_errors_ = 0;
};

}  // namespace nerf
