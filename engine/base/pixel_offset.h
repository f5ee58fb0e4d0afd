#pragma once

#include "engine/base/check.h"

namespace nerf {

// From a pixel's center, in pixels: x to the right, y down.
struct PixelOffset {
  float x = 0, y = 0;
};

// Rays of a pixel in training: 1 or this many. Of a view: a power of 4 up to kMaxRaysOfView.
inline constexpr int kMaxRaysPerPixel = 4;
inline constexpr int kMaxRaysOfView = 64;
constexpr bool AreRaysOfView(int n) { return n == 1 || n == 4 || n == 16 || n == kMaxRaysOfView; }

// Of ray i of n = side^2: the center of part i of side x side equal parts of the pixel, row by row.
// Requires 0 <= i < n, n a power of 4.
NERF_HD inline PixelOffset OffsetInPixel(int i, int n) {
  int side = 1;
  while (side * side < n) side *= 2;
  const float part = 1.0f / static_cast<float>(side);
  return {(static_cast<float>(i % side) + 0.5f) * part - 0.5f,
          (static_cast<float>(i / side) + 0.5f) * part - 0.5f};
}

}  // namespace nerf
