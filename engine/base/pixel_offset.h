#pragma once

#include "engine/base/check.h"

namespace nerf {

// From a pixel's center, in pixels: x to the right, y down.
struct PixelOffset {
  float x = 0, y = 0;
};

// Rays of a pixel: 1 or this many.
inline constexpr int kMaxRaysPerPixel = 4;

// Of ray i of n: the center itself for n = 1, the center of quarter i for n = 4. Requires
// 0 <= i < n.
NERF_HD inline PixelOffset OffsetInPixel(int i, int n) {
  if (n == 1) return {};
  return {i % 2 == 0 ? -0.25f : 0.25f, i / 2 == 0 ? -0.25f : 0.25f};
}

}  // namespace nerf
