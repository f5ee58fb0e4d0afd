#include "engine/field/kernels/hash_position_gradient.h"

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"
#include "engine/field/kernels/cuda/position_gradient.cuh"

namespace nerf::kernels::cuda {
namespace {

struct PositionGradientArguments {
  HashPositionGradientParams samples;
  Levels levels;
};

template <int F>
__global__ void __launch_bounds__(kBlock)
    HashPositionGradientKernel(const __grid_constant__ PositionGradientArguments arguments) {
  const HashPositionGradientParams& p = arguments.samples;
  const Elements elements = ElementsOf(p.range);
  for (uint32_t k = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; k < elements.end;
       k += gridDim.x * blockDim.x) {
    p.grad_positions[k] = PositionGradient<F>(arguments.levels, p.table, p.grad_features, p.stride,
                                              k, p.positions[p.rows[k]]);
  }
}

}  // namespace

void HashPositionGradient(const HashPositionGradientParams& params, Stream stream) {
  NERF_CHECK(params.shape.n_features == 2 || params.shape.n_features == 4);
  LaunchOver(
      "hash_position_gradient",
      params.shape.n_features == 2 ? HashPositionGradientKernel<2> : HashPositionGradientKernel<4>,
      params.range.capacity, kBlock, stream,
      PositionGradientArguments{params, LevelsOf(params.shape)});
}

}  // namespace nerf::kernels::cuda
