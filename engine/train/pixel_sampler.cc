#include "engine/train/pixel_sampler.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/scene/camera.h"

namespace nerf {
namespace {

constexpr int kPixelsPerTask = 256;
constexpr int kPixelsAhead = 32;  // reads miss the caches, so they are prefetched together
constexpr int kPagesAhead = 256;  // of a file: as many reads as a disk may work on at once

void SetSize(int n_pixels, PixelBatch* batch) {
  const auto n = static_cast<size_t>(n_pixels);
  batch->n_pixels = n_pixels;
  batch->pixels.resize(n);
  batch->targets.resize(n);
  batch->backgrounds.resize(n);
}

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

PixelSampler::PixelSampler(std::span<const View> views, Background background, uint32_t seed,
                           bool alpha_is_mask, const PictureFile* file)
    : file_(file) {
  first_pixels_.push_back(0);
  for (const View& view : views) {
    pictures_.push_back(PictureOf(view));
    if (file_ != nullptr) pictures_.back().pixels = file_->Pixels(pictures_.size() - 1).data();
    first_pixels_.push_back(first_pixels_.back() +
                            static_cast<uint64_t>(view.image.width) * view.image.height);
  }
  NERF_CHECK(first_pixels_.back() > 0);
  set_ = {.n_pictures = static_cast<int>(pictures_.size()),
          .pictures = pictures_.data(),
          .first_pixels = first_pixels_.data(),
          .background = BackgroundKindOf(background),
          .seed = seed,
          .alpha_is_mask = alpha_is_mask};
}

void PixelSampler::Fill(uint32_t step, int n_pixels, ThreadPool* pool, PixelBatch* batch) const {
  FillRange(step, n_pixels, {0, n_pixels}, pool, batch);
}

void PixelSampler::FillRange(uint32_t step, int n_pixels, IndexRange range, ThreadPool* pool,
                             PixelBatch* batch) const {
  batch->step = step;
  SetSize(n_pixels, batch);
  batch->weights.resize(set_.alpha_is_mask ? batch->pixels.size() : 0);
  DrawOnPool(range, pool, batch);
}

void PixelSampler::Resize(int n_pixels, IndexRange filled, IndexRange range, ThreadPool* pool,
                          PixelBatch* batch) const {
  SetSize(n_pixels, batch);
  batch->weights.resize(set_.alpha_is_mask ? batch->pixels.size() : 0);
  DrawOnPool({range.begin, std::min(range.end, filled.begin)}, pool, batch);
  DrawOnPool({std::max(range.begin, filled.end), range.end}, pool, batch);
}

void PixelSampler::DrawOnPool(IndexRange range, ThreadPool* pool, PixelBatch* batch) const {
  if (range.begin >= range.end) return;
  if (pool == nullptr) {
    Draw(range.begin, range.end, batch);
    return;
  }
  pool->ParallelFor((range.end - range.begin + kPixelsPerTask - 1) / kPixelsPerTask,
                    [&](int64_t task, int) {
                      const int first = range.begin + static_cast<int>(task) * kPixelsPerTask;
                      Draw(first, std::min(range.end, first + kPixelsPerTask), batch);
                    });
}

void PixelSampler::Draw(int begin, int end, PixelBatch* batch) const {
  kernels::SampledPixel drawn[std::max(kPixelsAhead, kPagesAhead)];
  const int n_ahead = file_ == nullptr ? kPixelsAhead : kPagesAhead;
  for (int first = begin; first < end; first += n_ahead) {
    const int last = std::min(end, first + n_ahead);
    for (int i = first; i < last; ++i) {
      drawn[i - first] = kernels::PixelOfRay(set_, batch->step, static_cast<uint32_t>(i));
      const uint8_t* const bytes = kernels::BytesOf(set_, drawn[i - first]);
      if (file_ == nullptr) {
        __builtin_prefetch(bytes);
      } else {
        file_->WillNeed(bytes);
      }
    }
    for (int i = first; i < last; ++i) {
      const kernels::SampledPixel& pixel = drawn[i - first];
      const auto width = static_cast<uint64_t>(pictures_[pixel.picture].width);
      const kernels::PixelTarget target =
          kernels::TargetOfPixel(set_, batch->step, static_cast<uint32_t>(i), pixel);
      batch->pixels[i] = {pixel.picture, static_cast<int32_t>(pixel.offset % width),
                          static_cast<int32_t>(pixel.offset / width)};
      batch->targets[i] = target.target;
      batch->backgrounds[i] = target.background;
      if (set_.alpha_is_mask) batch->weights[i] = target.weight;
    }
  }
}

}  // namespace nerf
