#pragma once

#include "engine/base/check.h"
#include "engine/base/vec3.h"

namespace nerf::kernels {

// Alpha compositing of a ray's samples, front to back, one step a sample:
//   weight_i = transmittance_i * alpha_i,  transmittance_{i+1} = transmittance_i * (1 - alpha_i).
// transmittance starts at 1; weights and what is left of it at the end sum to 1. Unitless.
// Source: Max 1995, "Optical models for direct volume rendering", eq. 28; Mildenhall et al. 2020,
// eq. 3.
NERF_HD inline float CompositeForwardStep(float alpha, float* transmittance) {
  const float weight = *transmittance * alpha;
  *transmittance *= 1 - alpha;
  return weight;
}

// Whether a sample counts at all: enough light reaches it, and it stops enough of that.
NERF_HD inline bool IsVisible(float transmittance, float alpha, float min_transmittance,
                              float alpha_threshold) {
  return transmittance >= min_transmittance && alpha >= alpha_threshold;
}

// The same walk once more for the gradient by sigma, from grad_colour, the loss's gradient by the
// ray's colour. `behind` starts as the ray's colour, background included, and loses each sample's
// share: it is what lies behind the sample at hand. transmittance starts at 1.
//   d colour / d sigma_i = delta_i * (transmittance_{i+1} * colour_i - behind_i)
// Returns d loss / d sigma_i, in scene units times the loss. (d loss / d colour_i is weight_i *
// grad_colour.)
NERF_HD inline float CompositeBackwardStep(Vec3 colour, float alpha, float weight, float delta,
                                           Vec3 grad_colour, float* transmittance, Vec3* behind) {
  *transmittance *= 1 - alpha;
  *behind = *behind - colour * weight;
  return delta * Dot(grad_colour, colour * *transmittance - *behind);
}

}  // namespace nerf::kernels
