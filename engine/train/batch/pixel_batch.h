#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/vec3.h"

namespace nerf {

// A pixel of a training view.
struct Pixel {
  int32_t view = 0;      // index among the scene's training views
  int32_t x = 0, y = 0;  // column and row, in the picture of the batch's level
  bool operator==(const Pixel&) const = default;
};

// The pixels of one training step with what the model should show there. Pixels, targets and
// backgrounds are a pure function of (seed, step, index). What belongs to a view (camera, time,
// exposure) is looked up by Pixel::view.
struct PixelBatch {
  uint32_t step = 0;      // steps finished before this one
  double fraction = 0;    // of the budget that is spent, [0, 1]: schedules are functions of it
  int picture_level = 0;  // of the pictures: how often their sides are halved (coarse_views.h)
  float rate_factor = 1;  // of the learning rate; the watchdog lowers it
  int n_pixels = 0;
  // [n_pixels], or empty where the step draws its pixels itself (TrainingStep::DrawsPixels).
  std::vector<Pixel> pixels;
  std::vector<Vec3> targets;      // sRGB, composited on the background
  std::vector<Vec3> backgrounds;  // sRGB
  std::vector<float> weights;     // of pixels in the loss: masks; empty: all 1
};

}  // namespace nerf
