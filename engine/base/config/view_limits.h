#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace nerf {

// Limits of one view, the same for client, server and engine.
inline constexpr int kMaxViewSide = 16384;  // pixels
inline constexpr int64_t kMaxViewPixels = 64'000'000;
inline constexpr int kMaxOrbitViews = 100'000;
// Views for which no size is asked are reduced to this many pixels.
inline constexpr double kMaxDefaultViewPixels = 1 << 20;

struct ViewSize {
  int64_t width = 0, height = 0;  // pixels
};

// The size in which a camera of size `camera` is rendered if `asked` is requested: one side of 0
// keeps the camera's aspect ratio, two take its size. `camera` is not read if both sides are given.
// Errors: InvalidArgument with the size if it exceeds the limits.
absl::StatusOr<ViewSize> ResolveViewSize(ViewSize camera, ViewSize asked);

}  // namespace nerf
