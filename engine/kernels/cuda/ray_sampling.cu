#include "engine/kernels/ray_sampling.h"

#include "engine/kernels/cuda/device_range.cuh"
#include "engine/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kBlock)
    SampleRaysKernel(const __grid_constant__ SampleRaysParams p) {
  const Elements elements = ElementsOf(p.range);
  const uint32_t step = *p.step, first = p.first == nullptr ? 0 : *p.first;
  for (uint32_t i = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; i < elements.end;
       i += gridDim.x * blockDim.x) {
    const SampledRay sampled = SampleRay(p.set, step, first + i);
    p.rays[i] = sampled.ray;
    p.jitters[i] = sampled.jitter;
    p.targets[i] = sampled.target;
    p.backgrounds[i] = sampled.background;
  }
}

}  // namespace

void SampleRays(const SampleRaysParams& params, Stream stream) {
  LaunchOver("sample_rays", SampleRaysKernel, params.range.capacity, kBlock, stream, params);
}

}  // namespace nerf::kernels::cuda
