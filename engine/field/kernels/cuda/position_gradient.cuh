#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/field/kernels/cuda/hash_cells.cuh"
#include "engine/field/kernels/cuda/pair.cuh"
#include "engine/field/kernels/hash_position_gradient.h"

namespace nerf::kernels::cuda {

// The gradient by the encoded position of kept sample k, at `position`. Arrays as
// HashPositionGradientParams has them.
template <int F>
__device__ Vec3 PositionGradient(const Levels& levels, const float* table_of_levels,
                                 const float* grad_features, uint32_t stride, uint32_t k,
                                 Vec3 position) {
  const auto* const pairs = reinterpret_cast<const Pair<float>*>(grad_features);
  Vec3 sum;
  for (int level = 0; level < levels.n_levels; ++level) {
    const Cell cell(position, levels.resolution[level]);
    const float* const table = table_of_levels + F * size_t{levels.entries} * level;
    float pulls[8];
    for (int c = 0; c < 8; ++c) {
      const float* const entry = table + F * size_t{cell.IndexOf(c, levels, level)};
      pulls[c] = 0;
      for (int f = 0; f < F; f += 2) {
        const Pair<float> gradient = pairs[size_t{stride} * ((level * F + f) / 2) + k];
        pulls[c] += gradient.x * entry[f];
        pulls[c] += gradient.y * entry[f + 1];
      }
    }
    const float near[3] = {1 - cell.fraction[0], 1 - cell.fraction[1], 1 - cell.fraction[2]};
    sum = sum +
          GradientInCell(near, cell.fraction, pulls) * static_cast<float>(levels.resolution[level]);
  }
  return sum;
}

}  // namespace nerf::kernels::cuda
