#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/ray.h"

namespace nerf {

// The rays of one training step with the colors that they should show. A pure function of (seed,
// step, ray index).
struct Batch {
  uint32_t step = 0;          // steps finished before this one
  float learning_rate = 0;    // for this step
  float step_scale = 1;       // steps along rays are so much longer than NgpState::steps()
  float distortion = 0;       // weight of the rays' distortion in the loss
  int n_active_levels = 16;   // of the hash encoding, from the coarsest
  int target_samples = 8192;  // that the number of rays was steered to
  int n_rays = 0;
  std::vector<Ray> rays;          // training frame; t_near is the scene's near
  std::vector<float> jitters;     // [0, 1): offset of the first sample, in steps
  std::vector<Vec3> targets;      // sRGB, composited on the ray's background
  std::vector<Vec3> backgrounds;  // sRGB
};

}  // namespace nerf
