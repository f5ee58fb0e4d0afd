#pragma once

#include <vector>

#include "engine/base/buffer.h"
#include "engine/field/kernels/ray_marching.h"

namespace nerf {

// A wave: each active ray marches a few samples further. Its arrays are kept from wave to wave.
struct RayWave {
  std::vector<int> active;          // indices of the rays that take part
  std::vector<int> n_found;         // samples found for each of them
  Buffer<float> t_middles, deltas;  // [active.size(), max_samples], see kernels::MarchRaysParams
  Buffer<uint32_t> cells;

  // Marches `active`, which the caller has filled.
  void March(const kernels::MarchGrid& grid, const kernels::MarchSteps& steps, int max_samples,
             kernels::MarchRay* rays);
};

}  // namespace nerf
