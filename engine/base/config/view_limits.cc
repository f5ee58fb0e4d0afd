#include "engine/base/config/view_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"

namespace nerf {

absl::StatusOr<ViewSize> ResolveViewSize(ViewSize camera, ViewSize asked) {
  ViewSize size = asked;
  const double aspect =
      static_cast<double>(camera.width) / static_cast<double>(std::max(camera.height, int64_t{1}));
  // Clamped, far beyond the limits, so that rounding cannot overflow.
  const auto rounded = [](double side) { return std::lround(std::clamp(side, 1.0, 1e9)); };
  if (asked.width == 0 && asked.height == 0) {
    size = camera;
  } else if (asked.width == 0) {
    size.width = rounded(static_cast<double>(asked.height) * aspect);
  } else if (asked.height == 0) {
    size.height = rounded(static_cast<double>(asked.width) / aspect);
  }
  const auto is_side = [](int64_t side) { return side >= 1 && side <= kMaxViewSide; };
  if (!is_side(size.width) || !is_side(size.height) || size.width * size.height > kMaxViewPixels) {
    return absl::InvalidArgumentError(
        fmt::format("a view of {} x {} pixels; at most {} a side and {} in all are rendered",
                    size.width, size.height, kMaxViewSide, kMaxViewPixels));
  }
  return size;
}

}  // namespace nerf
