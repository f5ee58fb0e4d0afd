#pragma once

#include <stop_token>

#include "absl/time/time.h"

namespace nerf {

// Waits; returns false, at once, when stop is requested.
bool SleepUnlessStopped(absl::Duration duration, const std::stop_token& stop);

}  // namespace nerf
