#pragma once

#include <cstdint>

namespace nerf::kernels {

// A queue of work on a device: what is put into one runs in order. Borrowed, never null on a
// device.
struct Stream {
  void* handle = nullptr;  // cudaStream_t when on CUDA, unused on CPU
};

// Which elements of its arrays a launch works on. How many there are may only be known on the
// device, so that no launch waits for the host: then `counts` points to device memory and the
// elements are [counts[0] + ... + counts[part - 1], + counts[part]), cut off at capacity. Without
// `counts` they are [0, capacity).
struct DeviceRange {
  uint32_t capacity = 0;
  const uint32_t* counts = nullptr;
  int part = 0;
};

}  // namespace nerf::kernels
