#pragma once

#include <stop_token>

#include "absl/time/time.h"

namespace nerf {

// Waits for `duration` and returns true. Returns false as soon as stop is requested.
bool SleepUnlessStopped(absl::Duration duration, const std::stop_token& stop);

}  // namespace nerf
