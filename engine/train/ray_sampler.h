#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/kernels/ray_sampling.h"
#include "engine/scene/scene.h"
#include "engine/train/batch.h"

namespace nerf {

// Draws the rays of training steps: each through the center of a pixel that is uniform over all
// pixels of all views. A pure function of (seed, step, ray index), whatever n_rays and the number
// of threads.
class RaySampler {
 public:
  // views outlive the sampler and hold at least one pixel. background: kWhite, kBlack, or kRandom
  // (a uniform color for each ray, drawn in sRGB). near, in training units, becomes t_near.
  RaySampler(std::span<const View> views, Background background, float near, uint32_t seed);
  RaySampler(const RaySampler&) = delete;
  RaySampler& operator=(const RaySampler&) = delete;

  // Fills batch->step, n_rays and the four arrays of n_rays elements. Targets are
  // color * alpha + background * (1 - alpha), in sRGB values. pool null: on the calling thread.
  void Fill(uint32_t step, int n_rays, ThreadPool* pool, Batch* batch) const;

  // Turns a filled batch into what Fill with n_rays gives: cuts it, or draws the missing rays.
  void Resize(int n_rays, ThreadPool* pool, Batch* batch) const;

 private:
  void DrawRays(int begin, int end, Batch* batch) const;

  std::vector<kernels::Picture> pictures_;
  std::vector<uint64_t> first_pixels_;  // [n_views + 1]: pixels of all views before this one
  kernels::PictureSet set_;             // of these
};

// A view in the form that kernels read; borrows its pixels.
kernels::Picture PictureOf(const View& view);
// Requires: not kAuto.
kernels::BackgroundKind BackgroundKindOf(Background background);

}  // namespace nerf
