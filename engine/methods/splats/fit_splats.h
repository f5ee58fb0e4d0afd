#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/methods/splats/splat_cloud.h"
#include "engine/scene/camera.h"

namespace nerf {

// A picture to fit to, with its camera.
struct SplatView {
  Camera camera;              // a pinhole, training frame
  std::vector<uint8_t> rgba;  // [height * width * 4] color on black, and opacity
};

struct SplatFitOptions {
  int n_steps = 0;  // views that are looked at
  uint64_t seed = 1;
};

// Moves, shapes and colors the splats until they look like the views, one view a step, by Adam.
// Splats with next to no opacity are moved onto others. after_step is called with the number of
// steps done. Stops early if `stop` was requested. Bytes do not depend on the pool's size.
// Requires: a view.
// Sources: Kerbl et al. 2023; Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte
// Carlo" (where splats are put, and how they share what one showed).
void FitSplats(std::span<const SplatView> views, const SplatFitOptions& options, ThreadPool* pool,
               const std::stop_token& stop, const std::function<void(int n_steps)>& after_step,
               SplatCloud* cloud);

// Mean PSNR of the splats over the views on white, decibels. Requires: a view.
double SplatPsnr(const SplatCloud& cloud, std::span<const SplatView> views, ThreadPool* pool);
// The same of a picture that shows `shown`. Requires: pictures of one size.
double ViewPsnr(const SplatView& shown, const SplatView& view);

}  // namespace nerf
