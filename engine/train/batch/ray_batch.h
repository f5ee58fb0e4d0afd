#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/ray.h"

namespace nerf {

// The rays through the pixels of a batch, and the values that the schedules have in this step.
struct RayBatch {
  uint32_t step = 0;          // steps finished before this one
  double fraction = 0;        // of the budget that is spent
  float learning_rate = 0;    // with the watchdog's factor
  float step_scale = 1;       // of the steps along rays
  float distortion = 0;       // weight of the rays' distortion in the loss
  int target_samples = 8192;  // trained samples that the number of rays was chosen for
  int n_rays = 0;
  // Consecutive rays of one pixel, whose mean color is compared; n_rays is a multiple of it.
  int rays_per_pixel = 1;
  // [n_rays], or empty where the step draws its rays itself.
  std::vector<Ray> rays;          // training frame; t_near is the scene's near
  std::vector<float> jitters;     // [0, 1): offset of the first sample, in steps
  std::vector<float> times;       // of the rays' views, 0 to 1
  std::vector<Vec3> targets;      // sRGB, composited on the ray's background
  std::vector<Vec3> backgrounds;  // sRGB
  std::vector<float> weights;     // of rays in the loss; empty: all 1
  std::vector<float> depths;   // where rays meet a surface, along them; 0: not known; may be empty
  std::vector<int32_t> views;  // training views that the rays are of; empty: not known
};

}  // namespace nerf
