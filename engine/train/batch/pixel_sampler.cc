#include "engine/train/batch/pixel_sampler.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/huge_pages.h"
#include "engine/field/kernels/random_words.h"
#include "engine/scene/camera.h"

namespace nerf {
namespace {

constexpr int kPixelsPerTask = 256;
constexpr int kPixelsAhead = 64;  // reads miss the caches, so they are prefetched together
constexpr int kPagesAhead = 256;  // of a file: as many reads as a disk may work on at once

// The pixels of a view, where all have as many; else 0.
uint64_t PixelsOfEach(std::span<const View> views) {
  uint64_t each = 0;
  for (const View& view : views) {
    const uint64_t n = static_cast<uint64_t>(view.image.width) * view.image.height;
    if (each != 0 && n != each) return 0;
    each = n;
  }
  return each;
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

uint64_t PixelsOfRuns(std::span<const uint32_t> runs, uint64_t n_pixels) {
  if (runs.empty()) return 0;
  const uint64_t end = (uint64_t{runs.back()} + 1) * kernels::kRunPixels;
  return runs.size() * kernels::kRunPixels - (end > n_pixels ? end - n_pixels : 0);
}

PixelSampler::PixelSampler(std::span<const View> views, Background background, uint32_t seed,
                           bool alpha_is_mask, const PictureFile* file,
                           std::span<const uint32_t> runs)
    : file_(file) {
  first_pixels_.push_back(0);
  for (const View& view : views) {
    pictures_.push_back(PictureOf(view));
    if (file_ != nullptr) {
      pictures_.back().pixels = file_->Pixels(pictures_.size() - 1).data();
    } else {
      CollapseToHugePages(view.image.pixels);
    }
    first_pixels_.push_back(first_pixels_.back() +
                            static_cast<uint64_t>(view.image.width) * view.image.height);
  }
  NERF_CHECK(first_pixels_.back() > 0);
  set_ = {.n_pictures = static_cast<int>(pictures_.size()),
          .pictures = pictures_.data(),
          .first_pixels = first_pixels_.data(),
          .pixels_each = PixelsOfEach(views),
          .runs = runs.empty() ? nullptr : runs.data(),
          .n_drawn = PixelsOfRuns(runs, first_pixels_.back()),
          .background = BackgroundKindOf(background),
          .seed = seed,
          .alpha_is_mask = alpha_is_mask};
}

void PixelSampler::Fill(uint32_t step, int n_pixels, ThreadPool* pool, PixelBatch* batch) const {
  FillRange(step, n_pixels, {0, n_pixels}, pool, batch);
}

void PixelSampler::SetSize(int n_pixels, PixelBatch* batch) const {
  const auto n = static_cast<size_t>(n_pixels);
  batch->n_pixels = n_pixels;
  batch->pixels.resize(n);
  batch->targets.resize(n);
  batch->backgrounds.resize(n);
  batch->weights.resize(set_.alpha_is_mask ? n : 0);
}

void PixelSampler::FillRange(uint32_t step, int n_pixels, IndexRange range, ThreadPool* pool,
                             PixelBatch* batch, const ErrorChoice* choice) const {
  batch->step = step;
  SetSize(n_pixels, batch);
  DrawOnPool(range, pool, choice, batch);
}

void PixelSampler::Resize(int n_pixels, IndexRange filled, IndexRange range, ThreadPool* pool,
                          PixelBatch* batch) const {
  SetSize(n_pixels, batch);
  DrawOnPool({range.begin, std::min(range.end, filled.begin)}, pool, nullptr, batch);
  DrawOnPool({std::max(range.begin, filled.end), range.end}, pool, nullptr, batch);
}

void PixelSampler::DrawOnPool(IndexRange range, ThreadPool* pool, const ErrorChoice* choice,
                              PixelBatch* batch) const {
  if (range.begin >= range.end) return;
  if (pool == nullptr) {
    Draw(range.begin, range.end, choice, batch);
    return;
  }
  pool->ParallelFor((range.end - range.begin + kPixelsPerTask - 1) / kPixelsPerTask,
                    [&](int64_t task, int) {
                      const int first = range.begin + static_cast<int>(task) * kPixelsPerTask;
                      Draw(first, std::min(range.end, first + kPixelsPerTask), choice, batch);
                    });
}

void PixelSampler::Draw(int begin, int end, const ErrorChoice* choice, PixelBatch* batch) const {
  constexpr int kMost = std::max(kPixelsAhead, kPagesAhead);
  kernels::SampledPixel drawn[kMost];
  uint32_t words[4][kMost];
  const int n_ahead = file_ == nullptr ? kPixelsAhead : kPagesAhead;
  kernels::cpu::RandomWordsParams random{
      .seed = set_.seed, .step = batch->step, .words = {words[0], words[1], words[2], words[3]}};
  const bool is_random = set_.background == kernels::BackgroundKind::kRandom;
  const float fixed = set_.background == kernels::BackgroundKind::kWhite ? 1.0f : 0.0f;
  for (int first = begin; first < end; first += n_ahead) {
    const int last = std::min(end, first + n_ahead);
    random.first = static_cast<uint32_t>(first);
    random.n = last - first;
    random.use = RandomUse::kRayPixel;
    kernels::cpu::FillRandomWords(random);
    for (int i = 0; i < random.n; ++i) {
      drawn[i] = kernels::PixelAt(set_, words[0][i], words[1][i]);
      if (choice != nullptr) {
        drawn[i] = choice->Choose({words[0][i], words[1][i], words[2][i], words[3][i]}, drawn[i]);
      }
      const uint8_t* const bytes = kernels::BytesOf(set_, drawn[i]);
      if (file_ == nullptr) {
        __builtin_prefetch(bytes);
      } else {
        file_->WillNeed(bytes);
      }
    }
    random.use = RandomUse::kRayJitter;
    if (is_random) kernels::cpu::FillRandomWords(random);
    for (int i = 0; i < random.n; ++i) {
      const kernels::SampledPixel& pixel = drawn[i];
      Vec3 background{fixed, fixed, fixed};
      if (is_random) {
        background = {UniformFloat(words[1][i]), UniformFloat(words[2][i]),
                      UniformFloat(words[3][i])};
      }
      const kernels::PixelTarget target = kernels::TargetOn(set_, background, pixel);
      const auto offset = static_cast<uint32_t>(pixel.offset);  // pictures have less than 2^32
      const auto width = static_cast<uint32_t>(pictures_[pixel.picture].width);
      batch->pixels[first + i] = {pixel.picture, static_cast<int32_t>(offset % width),
                                  static_cast<int32_t>(offset / width)};
      batch->targets[first + i] = target.target;
      batch->backgrounds[first + i] = target.background;
      if (set_.alpha_is_mask) batch->weights[first + i] = target.weight;
    }
  }
}

}  // namespace nerf
