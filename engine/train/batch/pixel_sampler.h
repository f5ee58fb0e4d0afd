#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/kernels/ray_sampling.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/scene/picture_file.h"
#include "engine/scene/scene.h"
#include "engine/train/batch/error_choice.h"
#include "engine/train/batch/pixel_batch.h"

namespace nerf {

// Draws the pixels of training steps, uniform over all pixels of all views or over runs of them. A
// pure function of (seed, step, index), whatever n_pixels and the number of threads.
class PixelSampler {
 public:
  // views outlive the sampler and hold at least one pixel. background: kWhite, kBlack, or kRandom
  // (a uniform color for each pixel, drawn in sRGB). alpha_is_mask: see Scene; batches then have
  // weights. file: has the views' pixels where their images have none; outlives the sampler. runs:
  // those to draw from (kernels::PictureSet), outlive the sampler; none: all.
  PixelSampler(std::span<const View> views, Background background, uint32_t seed,
               bool alpha_is_mask = false, const PictureFile* file = nullptr,
               std::span<const uint32_t> runs = {});
  PixelSampler(const PixelSampler&) = delete;
  PixelSampler& operator=(const PixelSampler&) = delete;

  // Fills batch->step, n_pixels, pixels, targets and backgrounds. Targets are
  // color * alpha + background * (1 - alpha), in sRGB values. pool null: on the calling thread.
  void Fill(uint32_t step, int n_pixels, ThreadPool* pool, PixelBatch* batch) const;

  // Fill for the pixels of `range` alone; the others have any value. choice: of the same views,
  // draws pixels by their errors; null: all pixels alike.
  void FillRange(uint32_t step, int n_pixels, IndexRange range, ThreadPool* pool, PixelBatch* batch,
                 const ErrorChoice* choice = nullptr) const;

  // Turns a batch of FillRange with range `filled` into what it gives with n_pixels and `range`:
  // cuts it, or draws the pixels that are missing.
  void Resize(int n_pixels, IndexRange filled, IndexRange range, ThreadPool* pool,
              PixelBatch* batch) const;

 private:
  void SetSize(int n_pixels, PixelBatch* batch) const;
  void Draw(int begin, int end, const ErrorChoice* choice, PixelBatch* batch) const;
  void DrawOnPool(IndexRange range, ThreadPool* pool, const ErrorChoice* choice,
                  PixelBatch* batch) const;

  const PictureFile* const file_;
  std::vector<kernels::Picture> pictures_;
  std::vector<uint64_t> first_pixels_;  // [n_views + 1]: pixels of all views before this one
  kernels::PictureSet set_;             // of these
};

// How many pixels these runs of n_pixels hold.
uint64_t PixelsOfRuns(std::span<const uint32_t> runs, uint64_t n_pixels);

// A view in the form that kernels read; borrows its pixels.
kernels::Picture PictureOf(const View& view);
// Requires: not kAuto.
kernels::BackgroundKind BackgroundKindOf(Background background);

}  // namespace nerf
