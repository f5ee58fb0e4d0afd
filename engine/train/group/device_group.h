#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nerf {

// Elements [begin, end) of an array.
struct ElementRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

// What the ranks of a group exchange of arrays in the memory of their CUDA devices. Every rank
// makes the same calls with the same sizes in the same order. Calls are ordered with the other work
// of `stream` (a cudaStream_t); all throw GroupError (group.h). Used from one thread.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  // In parts[rank] of this rank each value becomes its sum over all ranks; what other parts hold
  // afterwards is not defined. Integers are summed exactly. The order in which floats are added may
  // depend on the number of ranks. Shape: parts [n_ranks], which do not overlap.
  virtual void SumScatter(int64_t* values, std::span<const ElementRange> parts, void* stream) = 0;
  virtual void SumScatter(float* values, std::span<const ElementRange> parts, void* stream) = 0;

  // Bytes parts[rank] of each rank to all others, into the same place. Shape: parts [n_ranks].
  virtual void AllGather(void* bytes, std::span<const ElementRange> parts, void* stream) = 0;

  // Each of n values becomes the largest that a rank has.
  virtual void Max(float* values, size_t n, void* stream) = 0;
};

}  // namespace nerf
