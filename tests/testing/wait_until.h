#pragma once

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace nerf {

// Looks every 10 ms whether `condition` holds, for what other threads or processes do and do not
// tell. Returns whether it did within `timeout`.
inline bool WaitUntil(absl::Duration timeout, const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return true;
}

}  // namespace nerf
