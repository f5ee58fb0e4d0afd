#include "engine/methods/ngp/cuda/cuda_view_shape.h"

#include <algorithm>
#include <bit>

namespace nerf {
namespace {

// A device runs about 2^18 threads at once, so more rays would not keep it busier.
constexpr uint32_t kMaxTiles = (1u << 20) / kernels::kViewTileRays;
// Two samples per ray when all rays of a wave are active.
constexpr uint32_t kMaxViewSamples = 1u << 21;

CudaViewShape ShapeOf(uint32_t n_tiles) {
  const uint32_t n_rays = n_tiles * kernels::kViewTileRays;
  return {n_rays, std::min(kernels::cuda::kViewSamplesPerRay * n_rays, kMaxViewSamples)};
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
