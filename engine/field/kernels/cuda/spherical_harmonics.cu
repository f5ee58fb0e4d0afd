#include "engine/field/kernels/spherical_harmonics.h"

#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

template <typename T>
struct alignas(16) Row {
  T at[16];
};

template <typename T>
__global__ void __launch_bounds__(kBlock)
    SphericalHarmonicsKernel(const __grid_constant__ SphericalHarmonicsParams<T> p) {
  const Elements elements = ElementsOf(p.range);
  for (uint32_t r = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; r < elements.end;
       r += gridDim.x * blockDim.x) {
    float values[16];
    SphericalHarmonics4(p.rays[r].direction, values);
    Row<T> row;
#pragma unroll
    for (int i = 0; i < 16; ++i) row.at[i] = FromFloat<T>(values[i]);
    reinterpret_cast<Row<T>*>(p.harmonics)[r] = row;
  }
}

}  // namespace

void SphericalHarmonics(const SphericalHarmonicsParams<float>& params, Stream stream) {
  LaunchOver("spherical_harmonics", SphericalHarmonicsKernel<float>, params.range.capacity, kBlock,
             stream, params);
}
void SphericalHarmonics(const SphericalHarmonicsParams<Half>& params, Stream stream) {
  LaunchOver("spherical_harmonics", SphericalHarmonicsKernel<Half>, params.range.capacity, kBlock,
             stream, params);
}

}  // namespace nerf::kernels::cuda
