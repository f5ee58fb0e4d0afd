#pragma once

#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/vec3.h"
#include "engine/kernels/color_loss.h"
#include "engine/kernels/ray_marching.h"
#include "engine/kernels/stream.h"

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

// The alpha that a sample counts with. A ray ends at the sample that leaves less light than
// min_transmittance, and that one takes all of it: weights then sum to one, and neither the
// background nor what lies behind shows through what was never looked at. Its density gets no
// gradient, since its color's weight no longer depends on it.
NERF_HD inline float EffectiveAlpha(float alpha, float transmittance, float min_transmittance) {
  return transmittance * (1 - alpha) < min_transmittance ? 1.0f : alpha;
}

// Whether a sample counts at all: enough light reaches it, and it stops enough of that.
NERF_HD inline bool IsVisible(float transmittance, float alpha, float min_transmittance,
                              float alpha_threshold) {
  return transmittance >= min_transmittance && alpha >= alpha_threshold;
}

// The same walk once more for the gradient by sigma. grad_weight is the loss's derivative by the
// sample's weight: by way of the ray's color, Dot(d loss / d color, color_i), and of all else
// that depends on weights. `behind` starts as the sum over the samples of grad_weight_i * weight_i,
// plus Dot(d loss / d color, background) * transmittance at the end, and loses each sample's
// share: it is what lies behind the sample at hand. transmittance starts at 1.
//   d loss / d sigma_i = delta_i * (transmittance_{i+1} * grad_weight_i - behind_i)
// Returns that, in scene units times the loss. (d loss / d color_i is weight_i * d loss / d
// color.)
NERF_HD inline float CompositeBackwardStep(float grad_weight, float alpha, float weight,
                                           float delta, float* transmittance, float* behind) {
  *transmittance *= 1 - alpha;
  *behind -= grad_weight * weight;
  // Nothing lies behind it: the difference is rounding, which Adam would make a step of full size.
  if (*transmittance == 0) return 0;
  return delta * (grad_weight * *transmittance - *behind);
}

namespace cuda {

// Of 256 threads, at most: the rays of a step of about 2^18 samples come one to a thread.
inline constexpr int kLossBlocks = 256;

// Composites each ray, takes the loss of its color, and carries its gradient back to the samples,
// in one pass over each ray. Kept samples k of ray r are [ray_offsets[r], ray_offsets[r + 1]), and
// sample k's arrays stand at rows[k].
//   grads[k] = gradient by the color before its sigmoid (3) and by the density's exponent (1),
//   times *gradient_scale: what the mean over rays and channels, and the scaling, come to.
//   losses[b] = sums over the rays of block b of the loss and of the squared residual, both
//   averaged over the channels; those of blocks that ray_capacity has no rays for stay as they are.
//   The loss is the color's and *distortion times the distortion (kernels/distortion.h);
//   t_middles are read where it is there.
// Shapes: targets, backgrounds [n_rays]; alphas, deltas, sigmas, weights, t_middles
// [sample_capacity]; colors, grads [kept]; losses [kLossBlocks][2], 0 at the start. Traffic: 56
// bytes read and 16 written a sample, 40 read a ray.
struct CompositeLossParams {
  uint32_t ray_capacity = 0;
  const uint32_t* n_rays = nullptr;  // at most ray_capacity
  const uint32_t* ray_offsets = nullptr;
  const uint32_t* rows = nullptr;
  const float* alphas = nullptr;
  const float* deltas = nullptr;
  const float* sigmas = nullptr;
  const float* weights = nullptr;
  const float* t_middles = nullptr;
  MarchSteps steps;                   // of the scene
  const float* step_scale = nullptr;  // how much longer the samples' steps are; null: 1
  const Vec3* colors = nullptr;
  const Vec3* targets = nullptr;
  const Vec3* backgrounds = nullptr;
  const float* gradient_scale = nullptr;
  LossShape loss;
  const float* distortion = nullptr;  // weight in the loss; null: 0
  float* grads = nullptr;             // [kept][4]
  double* losses = nullptr;
};
void CompositeLoss(const CompositeLossParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
