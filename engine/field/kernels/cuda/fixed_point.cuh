#pragma once

#include <cstdint>

#include "engine/field/kernels/hash_encoding.h"

namespace nerf::kernels::cuda {

// Atomically *sum += value, in units of 1 / kFixedPointOne: such sums do not depend on the order of
// additions.
__device__ inline void AddFixed(int64_t* sum, float value) {
  // Two's complement: signed sums are the same.
  atomicAdd(reinterpret_cast<unsigned long long*>(sum),
            static_cast<unsigned long long>(__float2ll_rn(value * kFixedPointOne)));
}

}  // namespace nerf::kernels::cuda
