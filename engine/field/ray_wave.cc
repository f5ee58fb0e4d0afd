#include "engine/field/ray_wave.h"

namespace nerf {

void RayWave::March(const kernels::MarchGrid& grid, const kernels::MarchSteps& steps,
                    int max_samples, kernels::MarchRay* rays) {
  const size_t most = active.size() * static_cast<size_t>(max_samples);
  if (t_middles.size() < most) {
    t_middles = Buffer<float>(most);
    deltas = Buffer<float>(most);
    cells = Buffer<uint32_t>(most);
  }
  n_found.resize(active.size());
  kernels::cpu::MarchRays({.grid = grid,
                           .steps = steps,
                           .max_samples = max_samples,
                           .n_active = static_cast<int>(active.size()),
                           .active = active.data(),
                           .rays = rays,
                           .n_found = n_found.data(),
                           .t_middles = t_middles.data(),
                           .deltas = deltas.data(),
                           .cells = cells.data()});
}

}  // namespace nerf
