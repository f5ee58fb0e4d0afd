#pragma once

#include <cstdint>

#include "engine/base/encoded_space.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/hash_encoding.h"

namespace nerf::kernels {

// Gradient of the loss by a ray.
struct RayGradient {
  Vec3 origin, direction;
};

namespace cuda {

// Gradients by rays from those of their samples' encodings, of which sample t lies at origin + t
// direction; the color's dependence on the direction is left out. They are computed for one ray in
// `period`: gradients[j] is that of ray r with r / period = j and (r + *step) % period = 0, zero
// where there is none. Kept samples k of ray r are [ray_offsets[r], ray_offsets[r + 1]), at index
// rows[k] of the sample arrays. Those with delta 0, which lie infinitely far away, count nothing.
// Positions are where `space` has them.
// Shapes: table [n_levels][entries][F]; grad_features planes as HashEncodeBackwardParams has them,
// by k; gradients [ray_capacity / period, rounded up]. All pointers are to device memory.
// Traffic: 8 reads of 4 F bytes per sample and level, from cache.
struct RayGradientsParams {
  HashGridShape shape;
  const float* table = nullptr;
  uint32_t ray_capacity = 0;
  const uint32_t* n_rays = nullptr;
  const uint32_t* step = nullptr;
  uint32_t period = 1;
  const uint32_t* ray_offsets = nullptr;
  const uint32_t* rows = nullptr;
  const Vec3* positions = nullptr;
  const float* t_middles = nullptr;
  const float* deltas = nullptr;
  const float* grad_features = nullptr;
  uint32_t stride = 0;
  EncodedSpace space;
  RayGradient* gradients = nullptr;
};
void RayGradients(const RayGradientsParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
