#pragma once

#include <cstdint>

#include "engine/field/kernels/stream.h"

namespace nerf::ceilings {

// A CUDA device's peak rates, measured with kernels that do nothing else. All pointers are to
// device memory.

// n_rounds of 16x8x16 products of half-precision fragments, several independent ones per warp. sink
// [1] keeps the compiler from removing them. Returns the FLOP.
struct MatrixLoopParams {
  uint32_t n_rounds = 0;
  float* sink = nullptr;
};
double MatrixLoop(const MatrixLoopParams& params, kernels::Stream stream);

// Reads of 8 bytes at random indices of table [mask + 1], n_reads per thread, several in flight.
// sink [1]. Returns the number of reads.
struct GatherLoopParams {
  const uint64_t* table = nullptr;
  uint32_t mask = 0;
  uint32_t n_reads = 0;
  uint64_t* sink = nullptr;
};
double GatherLoop(const GatherLoopParams& params, kernels::Stream stream);

}  // namespace nerf::ceilings
