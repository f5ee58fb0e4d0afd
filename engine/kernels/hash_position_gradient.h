#pragma once

#include "engine/kernels/hash_encoding.h"

namespace nerf::kernels {

// Gradient of the hash encoding by position, of points inside their cells:
//   grad_positions[i] = sum over levels, features of grad_features[i * stride + F l + f]
//                       * d features / d positions[i]
// A trilinear mean is linear along each axis, so its derivative is the resolution times the
// difference of the means over the two faces of the cell. On a face between cells it is one-sided.
// Shapes: as HashEncodeForwardParams; grad_positions [n]. Levels from n_active on count nothing.
template <typename T>
struct HashPositionGradientParams {
  const HashGridShape* shape = nullptr;
  const T* table = nullptr;
  int n = 0;
  const Vec3* positions = nullptr;
  const float* grad_features = nullptr;
  int stride = 0;
  int n_active = kMaxHashLevels;
  Vec3* grad_positions = nullptr;
};

namespace cpu {
void HashPositionGradient(const HashPositionGradientParams<float>& params);
void HashPositionGradient(const HashPositionGradientParams<Half>& params);
}  // namespace cpu

}  // namespace nerf::kernels
