#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/field/kernels/ray_sampling.h"
#include "engine/scene/scene.h"

namespace nerf {

// Where training pictures are kept for a device that draws rays from them: in its own memory, or in
// page-locked memory of the host, from which it reads the few pixels of a step over the bus.
enum class PictureMemory { kDevice, kHost };

// The pictures and settings that a device draws its rays from.
struct RaySource {
  std::span<const View> views;
  Background background = Background::kBlack;  // of the training rays, not kAuto
  float near = 0;                              // training units; becomes t_near
  float far = kNoFar;                          // likewise t_far
  PictureMemory place = PictureMemory::kDevice;
  bool alpha_is_mask = false;  // Scene::alpha_is_mask
};

// Device memory that CudaPictures takes for `source`, in bytes.
size_t CudaRaySourceBytes(const RaySource& source);

// Where the pictures of `source` fit: the device first, then the host; nullopt if neither: then the
// host draws the rays. device_free: bytes left on the device. host_free: AvailableMemoryBytes().
std::optional<PictureMemory> ChoosePictureMemory(const RaySource& source, size_t device_free,
                                                 std::optional<uint64_t> host_free);

// The training pictures for a device that draws its rays itself: 8 bits a channel, as decoded.
// Empty if the host draws the rays.
class CudaPictures {
 public:
  // source: null for none. Returns when the copy is done.
  CudaPictures(const RaySource* source, uint64_t seed, kernels::Stream stream);

  // Draws from these runs alone from now on. Returns when they are copied. Requires some, and
  // pictures with alpha.
  void DrawFrom(std::span<const uint32_t> runs, kernels::Stream stream);

  bool empty() const { return set_.n_pictures == 0; }
  // For SampleRays.
  const kernels::PictureSet& set() const { return set_; }

 private:
  struct Arrays {
    // source: null for none.
    Arrays(const RaySource* source, BufferAllocator* on_device, BufferAllocator* on_host);
    Buffer<uint8_t> pixels;
    Buffer<kernels::Picture> pictures;
    Buffer<uint64_t> first_pixels;
    Buffer<uint32_t> runs;  // as many as there can be, where pictures have alpha
  };
  friend size_t CudaRaySourceBytes(const RaySource& source);

  Arrays arrays_;
  uint64_t n_pixels_ = 0;
  kernels::PictureSet set_;
};

}  // namespace nerf
