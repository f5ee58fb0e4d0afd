#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/batch.h"

namespace nerf {

// Draws the rays of training steps: each through the centre of a pixel that is uniform over all
// pixels of all views. A pure function of (seed, step, ray index): not of the number of threads,
// nor of n_rays.
class RaySampler {
 public:
  // views outlive the sampler and hold at least one pixel. background: kWhite, kBlack, or kRandom
  // (a uniform colour for each ray, drawn in sRGB). near, in training units, becomes t_near.
  RaySampler(std::span<const View> views, Background background, float near, uint32_t seed);

  // Fills batch->step, n_rays and the four arrays of n_rays elements. Targets are
  // colour * alpha + background * (1 - alpha), in sRGB values. pool null: on the calling thread.
  void Fill(uint32_t step, int n_rays, ThreadPool* pool, Batch* batch) const;

  // Makes a filled batch what Fill with another n_rays would have given: cuts it, or draws the rays
  // that are missing.
  void Resize(int n_rays, ThreadPool* pool, Batch* batch) const;

 private:
  struct Pixel {
    const View* view;
    int x, y;
  };
  Pixel PixelAt(uint64_t index) const;
  void DrawRays(int begin, int end, Batch* batch) const;

  std::span<const View> views_;
  std::vector<uint64_t> first_pixels_;  // [n_views + 1]: pixels of all views before this one
  Background background_;
  float near_;
  uint32_t seed_;
};

}  // namespace nerf
