#pragma once

#include <cstddef>
#include <vector>

#include "engine/base/vec3.h"

namespace nerf {

// Gaussians of a scene, as rows of numbers that are learned. Training frame.
//   position     3
//   log scale    3, of the standard deviations along its axes
//   rotation     4, a quaternion w, x, y, z of any length: turns its axes into the frame's
//   opacity      1, before a sigmoid
//   colors       3 for each spherical harmonic: color = 0.5 + sum of coefficient * harmonic, at
//                least 0 (methods/splats/harmonics.h)
// Source: Kerbl et al. 2023, "3D Gaussian Splatting for Real-Time Radiance Field Rendering".
struct SplatCloud {
  static constexpr int kPosition = 0, kLogScale = 3, kRotation = 6, kOpacity = 10, kColor = 11;
  static constexpr int kMaxRow = 64;  // row_size() of degree 3

  int degree = 0;  // of the harmonics, 0 to 3
  std::vector<float> numbers;
  // The least standard deviation of each, a fifth of what a pixel of the view that placed it
  // covers. It is added to the scale's in squares and dims what it widens, so that a splat is never
  // thinner than the pictures can show. [size()]
  // Source: Yu et al. 2024, "Mip-Splatting: Alias-free 3D Gaussian Splatting".
  std::vector<float> widths;

  int n_harmonics() const { return (degree + 1) * (degree + 1); }
  // Rows end with zeros, so that they have whole vectors of 16 floats.
  int row_size() const { return (kColor + 3 * n_harmonics() + 15) / 16 * 16; }
  size_t size() const { return widths.size(); }
  float* row(size_t i) { return numbers.data() + i * static_cast<size_t>(row_size()); }
  const float* row(size_t i) const { return numbers.data() + i * static_cast<size_t>(row_size()); }
};

// A splat lets some light through, so that its opacity has a number.
inline constexpr float kMaxSplatOpacity = 1 - 1e-6f;

// The opacity of a row, without its width, and the number that a row holds for an opacity.
float OpacityOf(const float* row);
float OpacityNumber(float opacity);

// Standard deviations and opacity with the width added, as files of splats hold them.
struct WidenedSplat {
  Vec3 scale;
  float opacity = 0;
};
WidenedSplat Widened(const float* row, float width);

}  // namespace nerf
