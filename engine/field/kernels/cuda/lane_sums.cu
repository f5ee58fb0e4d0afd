#include "engine/field/kernels/lane_sums.h"

#include "engine/field/kernels/cuda/device_intrinsics.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kWarp) CountInRangesKernel(CountInRangesParams p) {
  for (int i = static_cast<int>(threadIdx.x); i < p.n; i += kWarp)
    p.counts[i] = p.offsets[p.bounds[i + 1]] - p.offsets[p.bounds[i]];
}

__global__ void __launch_bounds__(kBlock) SumRowsKernel(SumRowsParams p) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.n; i += stride) {
    float sum = 0;
#pragma unroll 8
    for (int row = 0; row < p.n_rows; ++row) sum += p.rows[row * p.n + i];
    p.sums[i] = sum;
  }
}

}  // namespace

void CountInRanges(const CountInRangesParams& params, Stream stream) {
  Launch("count_in_ranges", CountInRangesKernel, 1, kWarp, 0, stream, params);
}

void SumRows(const SumRowsParams& params, Stream stream) {
  // As in AdamDense: few sums of many rows.
  LaunchOver("sum_rows", SumRowsKernel, params.n, 64, stream, params);
}

}  // namespace nerf::kernels::cuda
