#include "engine/train/ray_sampler.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/scene/camera.h"

namespace nerf {
namespace {

constexpr int kRaysPerTask = 256;
constexpr int kPixelsAhead = 32;  // reads miss the caches, so they are prefetched together

}  // namespace

kernels::Picture PictureOf(const View& view) {
  return {.camera = LensOf(view.camera),
          .width = view.image.width,
          .n_channels = view.image.n_channels,
          .pixels = view.image.pixels.data()};
}

kernels::BackgroundKind BackgroundKindOf(Background background) {
  NERF_CHECK(background != Background::kAuto);
  if (background == Background::kWhite) return kernels::BackgroundKind::kWhite;
  if (background == Background::kRandom) return kernels::BackgroundKind::kRandom;
  return kernels::BackgroundKind::kBlack;
}

RaySampler::RaySampler(std::span<const View> views, Background background, float near,
                       uint32_t seed) {
  first_pixels_.push_back(0);
  for (const View& view : views) {
    pictures_.push_back(PictureOf(view));
    first_pixels_.push_back(first_pixels_.back() +
                            static_cast<uint64_t>(view.image.width) * view.image.height);
  }
  NERF_CHECK(first_pixels_.back() > 0);
  set_ = {.n_pictures = static_cast<int>(pictures_.size()),
          .pictures = pictures_.data(),
          .first_pixels = first_pixels_.data(),
          .background = BackgroundKindOf(background),
          .near = near,
          .seed = seed};
}

void RaySampler::Fill(uint32_t step, int n_rays, ThreadPool* pool, Batch* batch) const {
  batch->step = step;
  batch->n_rays = 0;
  Resize(n_rays, pool, batch);
}

void RaySampler::Resize(int n_rays, ThreadPool* pool, Batch* batch) const {
  const auto n = static_cast<size_t>(n_rays);
  const int begin = std::exchange(batch->n_rays, n_rays);
  batch->rays.resize(n);
  batch->jitters.resize(n);
  batch->targets.resize(n);
  batch->backgrounds.resize(n);
  if (pool == nullptr) {
    DrawRays(begin, n_rays, batch);
    return;
  }
  pool->ParallelFor((n_rays - begin + kRaysPerTask - 1) / kRaysPerTask, [&](int64_t task, int) {
    const int first = begin + static_cast<int>(task) * kRaysPerTask;
    DrawRays(first, std::min(n_rays, first + kRaysPerTask), batch);
  });
}

void RaySampler::DrawRays(int begin, int end, Batch* batch) const {
  kernels::SampledPixel pixels[kPixelsAhead];
  for (int first = begin; first < end; first += kPixelsAhead) {
    const int last = std::min(end, first + kPixelsAhead);
    for (int i = first; i < last; ++i) {
      pixels[i - first] = kernels::PixelOfRay(set_, batch->step, static_cast<uint32_t>(i));
      __builtin_prefetch(kernels::BytesOf(set_, pixels[i - first]));
    }
    for (int i = first; i < last; ++i) {
      const kernels::SampledRay sampled =
          kernels::RayThroughPixel(set_, batch->step, static_cast<uint32_t>(i), pixels[i - first]);
      batch->rays[i] = sampled.ray;
      batch->jitters[i] = sampled.jitter;
      batch->targets[i] = sampled.target;
      batch->backgrounds[i] = sampled.background;
    }
  }
}

}  // namespace nerf
