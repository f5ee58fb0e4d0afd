#pragma once

#include "engine/base/vec3.h"
#include "engine/field/kernels/distortion.h"

namespace nerf {

// A ray whose samples are composited front to back, then walked again for their gradients.
struct CompositedRay {
  float transmittance = 1;
  bool done = false;                       // no further sample of it can be seen
  Vec3 color;                              // composited so far, without the background
  Vec3 grad_color;                         // of the loss, by `color`
  float behind = 0;                        // see CompositeBackwardStep
  kernels::Distortion distortion, before;  // of the whole ray, and of what was walked again
};

}  // namespace nerf
