#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace nerf {

// Why rendering that takes `expected` is slow, as a line for people; empty where it is short, and
// where the model is trained far enough to skip empty space. `occupied_share` is that of the
// occupancy grid; unset without one.
std::string SlowViewsReason(absl::Duration expected, std::optional<double> occupied_share);

}  // namespace nerf
