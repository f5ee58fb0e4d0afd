#pragma once

#include "engine/field/kernels/hash_encoding.h"

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

// The gradient by a point's position in its cell, in units of cells. near, far: the shares of the
// cell's sides along each axis. pulls[c]: of the loss by the weight of corner c, whose bits 0, 1
// and 2 are set on the far side along x, y and z.
NERF_HD inline Vec3 GradientInCell(const float (&near)[3], const float (&far)[3],
                                   const float (&pulls)[8]) {
  float along_x[4], x_mean[4];  // of the edges along x, bit 0 for y and bit 1 for z
  for (int edge = 0; edge < 4; ++edge) {
    const float low = pulls[2 * edge], high = pulls[2 * edge + 1];
    along_x[edge] = high - low;
    x_mean[edge] = near[0] * low + far[0] * high;
  }
  return {near[2] * (near[1] * along_x[0] + far[1] * along_x[1]) +
              far[2] * (near[1] * along_x[2] + far[1] * along_x[3]),
          near[2] * (x_mean[1] - x_mean[0]) + far[2] * (x_mean[3] - x_mean[2]),
          near[1] * (x_mean[2] - x_mean[0]) + far[1] * (x_mean[3] - x_mean[1])};
}

namespace cpu {
void HashPositionGradient(const HashPositionGradientParams<float>& params);
void HashPositionGradient(const HashPositionGradientParams<Half>& params);
}  // namespace cpu

namespace cuda {

// The same of the kept samples k in range, at rows[k] of positions: grad_positions[k].
// grad_features planes as HashEncodeBackwardParams has them, by k; the shape has the levels that
// count. All pointers are to device memory. Traffic: 8 reads of 4 F bytes per sample and level,
// from cache.
struct HashPositionGradientParams {
  HashGridShape shape;
  DeviceRange range;
  const float* table = nullptr;
  const uint32_t* rows = nullptr;
  const Vec3* positions = nullptr;
  const float* grad_features = nullptr;
  uint32_t stride = 0;
  Vec3* grad_positions = nullptr;
};
void HashPositionGradient(const HashPositionGradientParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
