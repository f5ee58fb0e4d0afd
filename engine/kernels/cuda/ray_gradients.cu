#include "engine/kernels/ray_gradients.h"

#include "engine/base/check.h"
#include "engine/kernels/cuda/hash_cells.cuh"
#include "engine/kernels/cuda/launch.cuh"
#include "engine/kernels/cuda/pair.cuh"
#include "engine/kernels/hash_position_gradient.h"

// One thread per ray, whose few samples are added up in their order.
namespace nerf::kernels::cuda {
namespace {

struct RayGradientArguments {
  RayGradientsParams rays;
  Levels levels;
};

// The gradient by the encoded position of kept sample k, at `position`.
template <int F>
__device__ Vec3 PositionGradient(const RayGradientArguments& arguments, uint32_t k, Vec3 position) {
  const RayGradientsParams& p = arguments.rays;
  const Levels& levels = arguments.levels;
  const auto* const pairs = reinterpret_cast<const Pair<float>*>(p.grad_features);
  Vec3 sum;
  for (int level = 0; level < levels.n_levels; ++level) {
    const Cell cell(position, levels.resolution[level]);
    const float* const table = p.table + F * size_t{levels.entries} * level;
    float pulls[8];
    for (int c = 0; c < 8; ++c) {
      const float* const entry = table + F * size_t{cell.IndexOf(c, levels, level)};
      pulls[c] = 0;
      for (int f = 0; f < F; f += 2) {
        const Pair<float> gradient = pairs[size_t{p.stride} * ((level * F + f) / 2) + k];
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

template <int F>
__global__ void __launch_bounds__(kBlock)
    RayGradientsKernel(const __grid_constant__ RayGradientArguments arguments) {
  const RayGradientsParams& p = arguments.rays;
  const uint32_t n_rays = *p.n_rays, offset = (p.period - *p.step % p.period) % p.period;
  const uint32_t n = (n_rays + p.period - 1) / p.period;
  for (uint32_t j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x) {
    const uint32_t r = j * p.period + offset;
    RayGradient sum;
    const uint32_t end = r < n_rays ? p.ray_offsets[r + 1] : 0;
    for (uint32_t k = r < n_rays ? p.ray_offsets[r] : 0; k < end; ++k) {
      const uint32_t row = p.rows[k];
      if (p.deltas[row] == 0) continue;
      const Vec3 position = p.positions[row];
      Vec3 gradient = PositionGradient<F>(arguments, k, position);
      if (p.contraction != Contraction::kNone)
        gradient = ContractedUnitBackward(p.contraction, position, gradient);
      gradient = gradient * p.scale;
      sum.origin = sum.origin + gradient;
      sum.direction = sum.direction + gradient * p.t_middles[row];
    }
    p.gradients[j] = sum;
  }
}

}  // namespace

void RayGradients(const RayGradientsParams& params, Stream stream) {
  NERF_CHECK(params.shape.n_features == 2 || params.shape.n_features == 4);
  const uint64_t n = (uint64_t{params.ray_capacity} + params.period - 1) / params.period;
  LaunchOver("ray_gradients",
             params.shape.n_features == 2 ? RayGradientsKernel<2> : RayGradientsKernel<4>, n,
             kBlock, stream, RayGradientArguments{params, LevelsOf(params.shape)});
}

}  // namespace nerf::kernels::cuda
