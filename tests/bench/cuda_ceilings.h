#pragma once

#include <cstdint>

#include "engine/kernels/stream.h"

namespace nerf::ceilings {

// What a CUDA device can do at most, measured with kernels that do nothing else. All pointers are
// to device memory.

// n_rounds of 16x8x16 products of half-precision fragments, several independent ones in each warp.
// sink [1] keeps the compiler from leaving them out. Returns how many FLOP that is.
struct MatrixLoopParams {
  uint32_t n_rounds = 0;
  float* sink = nullptr;
};
double MatrixLoop(const MatrixLoopParams& params, kernels::Stream stream);

// Reads of 8 bytes at random places of table [mask + 1], n_reads of each thread, several under way
// at once. sink [1]. Returns how many reads that is.
struct GatherLoopParams {
  const uint64_t* table = nullptr;
  uint32_t mask = 0;
  uint32_t n_reads = 0;
  uint64_t* sink = nullptr;
};
double GatherLoop(const GatherLoopParams& params, kernels::Stream stream);

}  // namespace nerf::ceilings
