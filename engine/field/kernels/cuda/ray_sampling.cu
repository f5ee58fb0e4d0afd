#include "engine/field/kernels/ray_sampling.h"

#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

template <bool kOfPictures>
__global__ void __launch_bounds__(kBlock)
    SampleRaysKernel(const __grid_constant__ SampleRaysParams p) {
  const Elements elements = ElementsOf(p.range);
  const uint32_t step = *p.step, first = p.first == nullptr ? 0 : *p.first;
  const uint32_t rays_per_pixel = p.rays_per_pixel == nullptr ? 1 : *p.rays_per_pixel;
  for (uint32_t i = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; i < elements.end;
       i += gridDim.x * blockDim.x) {
    const SampledRay sampled = SampleRay(p.set, step, first + i, rays_per_pixel);
    p.rays[i] = sampled.ray;
    p.jitters[i] = sampled.jitter;
    p.targets[i] = sampled.target;
    p.backgrounds[i] = sampled.background;
    if constexpr (kOfPictures) {
      if (p.weights != nullptr) p.weights[i] = sampled.weight;
      if (p.views != nullptr) p.views[i] = sampled.picture;
    }
  }
}

}  // namespace

void SampleRays(const SampleRaysParams& params, Stream stream) {
  const bool of_pictures = params.weights != nullptr || params.views != nullptr;
  LaunchOver("sample_rays", of_pictures ? SampleRaysKernel<true> : SampleRaysKernel<false>,
             params.range.capacity, kBlock, stream, params);
}

}  // namespace nerf::kernels::cuda
