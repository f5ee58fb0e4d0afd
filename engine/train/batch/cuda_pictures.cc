#include "engine/train/batch/cuda_pictures.h"

#include <algorithm>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/train/batch/pixel_sampler.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

size_t PixelBytes(const RaySource& source) {
  size_t byte_size = 0;
  for (const View& view : source.views) byte_size += view.image.pixels.size();
  return byte_size;
}

size_t MaxRuns(const RaySource& source) {
  uint64_t n_pixels = 0;
  bool has_alpha = false;
  for (const View& view : source.views) {
    n_pixels += static_cast<uint64_t>(view.image.width) * view.image.height;
    has_alpha |= view.image.n_channels == 4;
  }
  return has_alpha ? (n_pixels + kernels::kRunPixels - 1) / kernels::kRunPixels : 0;
}

}  // namespace

CudaPictures::Arrays::Arrays(const RaySource* source, BufferAllocator* on_device,
                             BufferAllocator* on_host)
    : pixels(source == nullptr ? 0 : PixelBytes(*source),
             source != nullptr && source->place == PictureMemory::kHost ? on_host : on_device),
      pictures(source == nullptr ? 0 : source->views.size(), on_device),
      first_pixels(source == nullptr ? 0 : source->views.size() + 1, on_device),
      runs(source == nullptr ? 0 : MaxRuns(*source), on_device) {}

CudaPictures::CudaPictures(const RaySource* source, uint64_t seed, kernels::Stream stream)
    : arrays_(source, cuda::DeviceAllocator(), cuda::PinnedAllocator()) {
  if (source == nullptr) return;
  std::vector<kernels::Picture> pictures;
  std::vector<uint64_t> first_pixels{0};
  uint8_t* pixels = arrays_.pixels.data();
  for (const View& view : source->views) {
    const std::vector<uint8_t>& bytes = view.image.pixels;
    // Page-locked memory has the same address on host and device.
    if (source->place == PictureMemory::kHost) {
      std::copy(bytes.begin(), bytes.end(), pixels);
    } else {
      cuda::CopyToDevice(pixels, bytes.data(), bytes.size(), stream);
    }
    pictures.push_back(PictureOf(view));
    pictures.back().pixels = pixels;
    pixels += bytes.size();
    first_pixels.push_back(first_pixels.back() +
                           static_cast<uint64_t>(view.image.width) * view.image.height);
  }
  NERF_CHECK(first_pixels.back() > 0);
  cuda::CopyToDevice(arrays_.pictures.data(), pictures.data(), arrays_.pictures.byte_size(),
                     stream);
  cuda::CopyToDevice(arrays_.first_pixels.data(), first_pixels.data(),
                     arrays_.first_pixels.byte_size(), stream);
  cuda::Synchronize(stream);
  set_ = {.n_pictures = static_cast<int>(pictures.size()),
          .pictures = arrays_.pictures.data(),
          .first_pixels = arrays_.first_pixels.data(),
          .background = BackgroundKindOf(source->background),
          .near = source->near,
          .far = source->far,
          .seed = seed,
          .alpha_is_mask = source->alpha_is_mask};
  n_pixels_ = first_pixels.back();
}

void CudaPictures::DrawFrom(std::span<const uint32_t> runs, kernels::Stream stream) {
  NERF_CHECK(!runs.empty() && runs.size() <= arrays_.runs.size());
  cuda::CopyToDevice(arrays_.runs.data(), runs.data(), runs.size_bytes(), stream);
  cuda::Synchronize(stream);
  set_.runs = arrays_.runs.data();
  set_.n_drawn = PixelsOfRuns(runs, n_pixels_);
}

size_t CudaRaySourceBytes(const RaySource& source) {
  MeasuringAllocator on_device, on_host;
  CudaPictures::Arrays(&source, &on_device, &on_host);
  return on_device.byte_size();
}

std::optional<PictureMemory> ChoosePictureMemory(const RaySource& source, size_t device_free,
                                                 std::optional<uint64_t> host_free) {
  RaySource tried = source;
  tried.place = PictureMemory::kDevice;
  if (CudaRaySourceBytes(tried) <= device_free) return tried.place;
  tried.place = PictureMemory::kHost;
  // Locked pages are lost to other programs, so leave half of the free memory.
  const bool host_has_room = host_free.has_value() && PixelBytes(source) <= *host_free / 2;
  if (host_has_room && CudaRaySourceBytes(tried) <= device_free) return tried.place;
  return std::nullopt;
}

}  // namespace nerf
