#include "engine/field/kernels/ray_gradients.h"

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/launch.cuh"
#include "engine/field/kernels/cuda/position_gradient.cuh"

// One thread per ray, whose few samples are added up in their order.
namespace nerf::kernels::cuda {
namespace {

struct RayGradientArguments {
  RayGradientsParams rays;
  Levels levels;
};

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
      const Vec3 gradient = p.space.Backward(
          position,
          PositionGradient<F>(arguments.levels, p.table, p.grad_features, p.stride, k, position));
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
