#include "engine/train/ray_sampler.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/scene/camera.h"

namespace nerf {
namespace {

constexpr int kRaysPerTask = 256;

// Uniform in [0, n): the high 64 bits of a 128-bit product.
uint64_t UniformIndex64(uint32_t high, uint32_t low, uint64_t n) {
  const uint64_t word = (uint64_t{high} << 32) | low;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * n) >> 64);
}

}  // namespace

RaySampler::RaySampler(std::span<const View> views, Background background, float near,
                       uint32_t seed)
    : views_(views), background_(background), near_(near), seed_(seed) {
  NERF_CHECK(background != Background::kAuto);
  first_pixels_.reserve(views.size() + 1);
  first_pixels_.push_back(0);
  for (const View& view : views) {
    first_pixels_.push_back(first_pixels_.back() +
                            static_cast<uint64_t>(view.image.width) * view.image.height);
  }
  NERF_CHECK(first_pixels_.back() > 0);
}

RaySampler::Pixel RaySampler::PixelAt(uint64_t index) const {
  const auto after = std::upper_bound(first_pixels_.begin(), first_pixels_.end(), index);
  const size_t v = static_cast<size_t>(after - first_pixels_.begin()) - 1;
  const View& view = views_[v];
  const uint64_t offset = index - first_pixels_[v];
  const auto width = static_cast<uint64_t>(view.image.width);
  return {&view, static_cast<int>(offset % width), static_cast<int>(offset / width)};
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
  for (int i = begin; i < end; ++i) {
    const auto index = static_cast<uint32_t>(i);
    const auto place = RandomWords(seed_, RandomUse::kRayPixel, batch->step, index);
    const auto rest = RandomWords(seed_, RandomUse::kRayJitter, batch->step, index);
    const Pixel pixel = PixelAt(UniformIndex64(place[0], place[1], first_pixels_.back()));

    Ray ray = CameraRay(pixel.view->camera, static_cast<float>(pixel.x) + 0.5f,
                        static_cast<float>(pixel.y) + 0.5f);
    ray.t_near = near_;
    batch->rays[index] = ray;
    batch->jitters[index] = UniformFloat(rest[0]);

    Vec3 background{0, 0, 0};
    if (background_ == Background::kWhite) background = {1, 1, 1};
    if (background_ == Background::kRandom) {
      background = {UniformFloat(rest[1]), UniformFloat(rest[2]), UniformFloat(rest[3])};
    }
    batch->backgrounds[index] = background;

    const ImageU8& image = pixel.view->image;
    const uint8_t* bytes = image.Pixel(pixel.x, pixel.y);
    const bool grey = image.n_channels < 3;
    const Vec3 colour = Vec3{static_cast<float>(bytes[0]), static_cast<float>(bytes[grey ? 0 : 1]),
                             static_cast<float>(bytes[grey ? 0 : 2])} *
                        (1 / 255.0f);
    const float alpha = image.n_channels == 4 ? static_cast<float>(bytes[3]) / 255.0f : 1.0f;
    batch->targets[index] = colour * alpha + background * (1 - alpha);
  }
}

}  // namespace nerf
