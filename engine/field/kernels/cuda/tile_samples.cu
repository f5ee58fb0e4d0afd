#include "engine/field/kernels/tile_samples.h"

#include "engine/field/kernels/cuda/density_targets.cuh"
#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

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
    const uint32_t source = p.sources != nullptr ? p.sources[i] : i;
    const Vec3 point = p.positions[source];
    const float weight = WeightOf(p, point);
    if (weight <= 0 && !p.lists_all) continue;
    const uint32_t next = atomicAdd(p.count, 1u);
    const uint32_t at = p.lists_all ? i - elements.begin : next;
    p.rows[at] = i;
    p.weights[at] = weight;
    p.tile_positions[at] = point;
    if (p.ray_of != nullptr) p.tile_ray_of[at] = p.ray_of[source];
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

// Calls body(k, sample) for those of the list whose weight is not 0.
template <typename Params, typename Body>
__device__ void ForListed(const Params& p, Body body) {
  const Elements elements = ElementsOf(p.range);
  for (uint32_t k = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; k < elements.end;
       k += gridDim.x * blockDim.x) {
    if (p.weights[k] > 0) body(k, p.rows[k]);
  }
}

__global__ void __launch_bounds__(kBlock)
    TileDensityKernel(const __grid_constant__ TileDensityParams p) {
  ForListed(p, [&](uint32_t k, uint32_t i) { StoreDensity(p.to, i, p.tile_sigmas[k]); });
}
__global__ void __launch_bounds__(kBlock)
    TileColorKernel(const __grid_constant__ TileColorParams p) {
  ForListed(p, [&](uint32_t k, uint32_t i) { p.colors[i] = p.tile_colors[k]; });
}
__global__ void __launch_bounds__(kBlock)
    TileGradientKernel(const __grid_constant__ TileGradientParams p) {
  const Elements elements = ElementsOf(p.range);
  for (uint32_t k = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; k < elements.end;
       k += gridDim.x * blockDim.x) {
    const bool counts = p.weights[k] > 0;
    for (int c = 0; c < 4; ++c)
      p.tile_grads[4 * size_t{k} + c] = counts ? p.grads[4 * size_t{p.rows[k]} + c] : 0.0f;
  }
}

}  // namespace

void SetTileDensity(const TileDensityParams& params, Stream stream) {
  LaunchOver("tile_density", TileDensityKernel, params.range.capacity, kBlock, stream, params);
}
void SetTileColor(const TileColorParams& params, Stream stream) {
  LaunchOver("tile_color", TileColorKernel, params.range.capacity, kBlock, stream, params);
}
void FetchTileGradient(const TileGradientParams& params, Stream stream) {
  LaunchOver("tile_gradient", TileGradientKernel, params.range.capacity, kBlock, stream, params);
}
void SelectTile(const SelectTileParams& params, Stream stream) {
  LaunchOver("select_tile", SelectTileKernel, params.range.capacity, kBlock, stream, params);
}
void AddTile(const AddTileParams& params, Stream stream) {
  LaunchOver("add_tile", AddTileKernel, params.range.capacity, kBlock, stream, params);
}

}  // namespace nerf::kernels::cuda
