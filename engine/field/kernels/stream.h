#pragma once

#include <cstdint>

namespace nerf::kernels {

// A queue of work on a device, which runs in order. Borrowed; never null on a device.
struct Stream {
  void* handle = nullptr;  // cudaStream_t when on CUDA, unused on CPU
};

// The elements of its arrays that a launch processes. Without counts: [0, capacity). With counts
// (in device memory, so that a launch need not wait for the host): the counts[part] elements that
// follow the first counts[0] + ... + counts[part - 1], cut off at capacity.
struct DeviceRange {
  uint32_t capacity = 0;
  const uint32_t* counts = nullptr;
  int part = 0;
};

}  // namespace nerf::kernels
