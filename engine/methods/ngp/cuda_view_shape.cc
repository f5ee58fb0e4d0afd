#include "engine/methods/ngp/cuda_view_shape.h"

#include <algorithm>
#include <bit>

namespace nerf {
namespace {

// More rays at once keep a device no busier: it runs a quarter of a million threads.
constexpr uint32_t kMaxTiles = (1u << 20) / kernels::kViewTileRays;
// With them a wave that all of these rays take part in still has two samples for each.
constexpr uint32_t kMaxSamples = 1u << 21;

CudaViewShape ShapeOf(uint32_t n_tiles) {
  const uint32_t n_rays = n_tiles * kernels::kViewTileRays;
  return {n_rays, std::min(kernels::cuda::kViewSamplesPerRay * n_rays, kMaxSamples)};
}

}  // namespace

template <typename T>
CudaViewShape CudaViewShapeFor(uint32_t n_tiles, size_t free_bytes) {
  // Powers of two, so that views of many sizes share their arrays.
  uint32_t tiles = std::min(std::bit_ceil(std::max(n_tiles, 1u)), kMaxTiles);
  while (tiles > 1 && CudaViewBytes<T>(ShapeOf(tiles)) > free_bytes / 2) tiles /= 2;
  return ShapeOf(tiles);
}

template CudaViewShape CudaViewShapeFor<float>(uint32_t n_tiles, size_t free_bytes);
template CudaViewShape CudaViewShapeFor<Half>(uint32_t n_tiles, size_t free_bytes);

}  // namespace nerf
