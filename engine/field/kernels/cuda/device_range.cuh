#pragma once

#include "engine/field/kernels/stream.h"

namespace nerf::kernels::cuda {

// The elements [begin, end) of a DeviceRange.
struct Elements {
  uint32_t begin, end;
  __device__ uint32_t size() const { return end - begin; }
};

__device__ inline Elements ElementsOf(const DeviceRange& range) {
  if (range.counts == nullptr) return {0, range.capacity};
  uint32_t begin = 0;
  for (int part = 0; part < range.part; ++part) begin += range.counts[part];
  begin = min(begin, range.capacity);
  return {begin, begin + min(range.counts[range.part], range.capacity - begin)};
}

}  // namespace nerf::kernels::cuda
