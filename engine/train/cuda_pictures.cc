#include "engine/train/cuda_pictures.h"

#include <vector>

#include "engine/base/check.h"
#include "engine/kernels/cuda/device.h"
#include "engine/train/ray_sampler.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

size_t PixelBytes(const RaySource& source) {
  size_t byte_size = 0;
  for (const View& view : source.views) byte_size += view.image.pixels.size();
  return byte_size;
}

}  // namespace

CudaPictures::Arrays::Arrays(const RaySource* source, BufferAllocator* from)
    : pixels(source == nullptr ? 0 : PixelBytes(*source), from),
      pictures(source == nullptr ? 0 : source->views.size(), from),
      first_pixels(source == nullptr ? 0 : source->views.size() + 1, from) {}

CudaPictures::CudaPictures(const RaySource* source, uint64_t seed, kernels::Stream stream)
    : arrays_(source, cuda::DeviceAllocator()) {
  if (source == nullptr) return;
  std::vector<kernels::Picture> pictures;
  std::vector<uint64_t> first_pixels{0};
  uint8_t* pixels = arrays_.pixels.data();
  for (const View& view : source->views) {
    const std::vector<uint8_t>& bytes = view.image.pixels;
    cuda::CopyToDevice(pixels, bytes.data(), bytes.size(), stream);
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
          .seed = seed};
}

size_t CudaRaySourceBytes(const RaySource& source) {
  MeasuringAllocator measure;
  CudaPictures::Arrays(&source, &measure);
  return measure.byte_size();
}

}  // namespace nerf
