#pragma once

#include <cstdint>

#include "engine/field/kernels/stream.h"

// Sums of the gradient lanes of a CUDA step (train/gradient_lanes.h). All pointers are to device
// memory.
namespace nerf::kernels::cuda {

// counts[i] = offsets[bounds[i + 1]] - offsets[bounds[i]] for i in [0, n): how many samples each of
// n ranges of rays keeps. Shapes: bounds [n + 1], rising; offsets as CompactSamples writes them.
struct CountInRangesParams {
  int n = 0;
  const uint32_t* bounds = nullptr;
  const uint32_t* offsets = nullptr;
  uint32_t* counts = nullptr;
};

// sums[i] = rows[0][i] + rows[1][i] + ..., added in this order. Shapes: rows [n_rows][n], sums [n].
struct SumRowsParams {
  int n_rows = 0;
  int64_t n = 0;
  const float* rows = nullptr;
  float* sums = nullptr;
};

void CountInRanges(const CountInRangesParams& params, Stream stream);
void SumRows(const SumRowsParams& params, Stream stream);

}  // namespace nerf::kernels::cuda
