#pragma once

#include <cstdint>

// `static`, so that each kernel file has its own copies: the host emulation places shared variables
// in a section of their own, which is impossible for those of inline functions.
namespace nerf::kernels::cuda {

// Sum of the values of the block's threads before this one; *total is the sum of all. Called by
// every thread of a block of whole warps.
__device__ static inline uint32_t BlockExclusiveSum(uint32_t value, uint32_t* total) {
  constexpr unsigned kAllLanes = 0xffffffffu;
  __shared__ uint32_t warp_sums[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
  const auto inclusive = [&](uint32_t sum) {
    for (unsigned delta = 1; delta < 32; delta *= 2) {
      const uint32_t before = __shfl_up_sync(kAllLanes, sum, delta);
      if (lane >= delta) sum += before;
    }
    return sum;
  };
  const uint32_t sum = inclusive(value);
  __syncthreads();  // the previous call's sums may still be read
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const uint32_t warps = inclusive(lane < n_warps ? warp_sums[lane] : 0);
    warp_sums[lane] = warps;
  }
  __syncthreads();
  *total = warp_sums[n_warps - 1];
  return sum - value + (warp == 0 ? 0 : warp_sums[warp - 1]);
}

// Sum of the values of the block's threads, in a fixed order. Valid in thread 0. Called by every
// thread of a block of whole warps.
__device__ static inline double BlockSum(double value) {
  constexpr unsigned kAllLanes = 0xffffffffu;
  __shared__ double warp_sums[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto over_lanes = [&](double sum) {
    for (unsigned delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(kAllLanes, sum, delta);
    return sum;
  };
  value = over_lanes(value);
  __syncthreads();  // the previous call's sums may still be read
  if (lane == 0) warp_sums[warp] = value;
  __syncthreads();
  if (warp == 0) value = over_lanes(lane < blockDim.x / 32 ? warp_sums[lane] : 0);
  return value;
}

}  // namespace nerf::kernels::cuda
