#pragma once

#include "engine/base/check.h"

namespace nerf {

// From a pixel's center, in pixels: x to the right, y down.
struct PixelOffset {
  float x = 0, y = 0;
};

// A pixel shows the mean of so many rays at most; of one or of four.
inline constexpr int kMaxRaysPerPixel = 4;

// Where the rays of a pixel go through it: one through its center, four through those of its
// quarters. i < n.
NERF_HD inline PixelOffset OffsetInPixel(int i, int n) {
  if (n == 1) return {};
  return {i % 2 == 0 ? -0.25f : 0.25f, i / 2 == 0 ? -0.25f : 0.25f};
}

}  // namespace nerf
