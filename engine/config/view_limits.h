#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace nerf {

// What one view may be. Client, server and engine refuse the same.
inline constexpr int kMaxViewSide = 16384;  // pixels
inline constexpr int64_t kMaxViewPixels = 64'000'000;
inline constexpr int kMaxOrbitViews = 100'000;

struct ViewSize {
  int64_t width = 0, height = 0;  // pixels
};

// The size that a view of a camera of size `camera` is rendered in when `asked` is asked for: a
// side of 0 follows the camera's aspect, two take its size. `camera` is not read where both are
// given. Errors: InvalidArgument with the size when it is beyond the limits.
absl::StatusOr<ViewSize> ResolveViewSize(ViewSize camera, ViewSize asked);

}  // namespace nerf
