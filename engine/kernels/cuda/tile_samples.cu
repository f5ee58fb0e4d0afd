#include "engine/kernels/tile_samples.h"

#include "engine/kernels/cuda/device_intrinsics.cuh"
#include "engine/kernels/cuda/device_range.cuh"
#include "engine/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

// From the tile up to the first cut.
__device__ float WeightOf(const SelectTileParams& p, const Vec3& point) {
  float weight = 1;
  for (int node = p.n_tiles - 1 + p.tile; node > 0; node = (node - 1) / 2) {
    const DeviceTileCut cut = p.cuts[(node - 1) / 2];
    const float over = point[cut.axis] - cut.position;
    const float above = cut.margin > 0 ? fminf(fmaxf(0.5f + over / (2 * cut.margin), 0.0f), 1.0f)
                                       : (over >= 0 ? 1.0f : 0.0f);
    weight *= node % 2 == 0 ? above : 1 - above;
  }
  return weight;
}

__global__ void __launch_bounds__(kBlock)
    SelectTileKernel(const __grid_constant__ SelectTileParams p) {
  const Elements elements = ElementsOf(p.range);
  for (uint32_t i = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; i < elements.end;
       i += gridDim.x * blockDim.x) {
    const Vec3 point = p.positions[i];
    const float weight = WeightOf(p, point);
    if (weight <= 0) continue;
    const uint32_t at = atomicAdd(p.count, 1u);
    p.rows[at] = i;
    p.weights[at] = weight;
    p.tile_positions[at] = point;
    p.tile_ray_of[at] = p.ray_of[i];
  }
}

__global__ void __launch_bounds__(kBlock) AddTileKernel(const __grid_constant__ AddTileParams p) {
  const Elements elements = ElementsOf(p.range);
  for (uint32_t i = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; i < elements.end;
       i += gridDim.x * blockDim.x) {
    const uint32_t row = p.rows[i];
    const float share = p.weights[i] * p.tile_sigmas[i];
    if (!(share > 0)) continue;
    const float total = p.sigmas[row] + share;
    p.sigmas[row] = total;
    // The running mean: a sample of one tile has that tile's color exactly.
    const Vec3 color = p.colors[row];
    p.colors[row] = color + (p.tile_colors[i] - color) * (share / total);
  }
}

}  // namespace

void SelectTile(const SelectTileParams& params, Stream stream) {
  LaunchOver("select_tile", SelectTileKernel, params.range.capacity, kBlock, stream, params);
}
void AddTile(const AddTileParams& params, Stream stream) {
  LaunchOver("add_tile", AddTileKernel, params.range.capacity, kBlock, stream, params);
}

}  // namespace nerf::kernels::cuda
