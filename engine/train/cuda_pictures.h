#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/buffer.h"
#include "engine/kernels/ray_sampling.h"
#include "engine/train/ngp.h"

namespace nerf {

// Pictures that a device draws rays from: 8-bit, as they were decoded, in its memory or in
// page-locked memory of the host. None where rays come with the batches.
class CudaPictures {
 public:
  // source: null for none. Returns when the copy is done.
  CudaPictures(const RaySource* source, uint64_t seed, kernels::Stream stream);

  bool empty() const { return set_.n_pictures == 0; }
  // As SampleRays takes it.
  const kernels::PictureSet& set() const { return set_; }

 private:
  struct Arrays {
    // source: null for none.
    Arrays(const RaySource* source, BufferAllocator* on_device, BufferAllocator* on_host);
    Buffer<uint8_t> pixels;
    Buffer<kernels::Picture> pictures;
    Buffer<uint64_t> first_pixels;
  };
  friend size_t CudaRaySourceBytes(const RaySource& source);

  Arrays arrays_;
  kernels::PictureSet set_;
};

}  // namespace nerf
