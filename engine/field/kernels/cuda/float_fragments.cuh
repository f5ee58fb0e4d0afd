#pragma once

#include "engine/field/kernels/cuda/pair.cuh"

namespace nerf::kernels::cuda {

// Sums of a 16x8 tile, in the layout that device_intrinsics.cuh describes.
struct FragmentC {
  float r[4] = {0, 0, 0, 0};
};

// c += a b in plain fp32 on fragments in the tensor cores' layout: the reference for the
// half-precision path. Each lane fetches the elements it needs from the lanes that hold them.
__device__ inline void MultiplyAddByShuffles(const Pair<float> (&a)[4], const Pair<float> (&b)[2],
                                             FragmentC* c) {
  constexpr unsigned kAllLanes = 0xffffffffu;
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const int upper = k / 8, holder = k % 8 / 2;
    const auto part = [&](const Pair<float>& pair) { return k % 2 == 0 ? pair.x : pair.y; };
    const float a0 = __shfl_sync(kAllLanes, part(a[2 * upper]), 4 * g + holder);
    const float a1 = __shfl_sync(kAllLanes, part(a[2 * upper + 1]), 4 * g + holder);
    const float b0 = __shfl_sync(kAllLanes, part(b[upper]), 8 * q + holder);
    const float b1 = __shfl_sync(kAllLanes, part(b[upper]), 8 * q + 4 + holder);
    c->r[0] += a0 * b0;
    c->r[1] += a0 * b1;
    c->r[2] += a1 * b0;
    c->r[3] += a1 * b1;
  }
}

}  // namespace nerf::kernels::cuda
