#pragma once

#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/vec3.h"
#include "engine/field/kernels/color_loss.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/kernels/stream.h"

namespace nerf::kernels {

// One sample of alpha compositing along a ray, front to back:
//   weight_i = transmittance_i * alpha_i,  transmittance_{i+1} = transmittance_i * (1 - alpha_i).
// transmittance starts at 1. The weights and the final transmittance sum to 1. Unitless.
// Source: Max 1995, "Optical models for direct volume rendering", eq. 28; Mildenhall et al. 2020,
// eq. 3.
NERF_HD inline float CompositeForwardStep(float alpha, float* transmittance) {
  const float weight = *transmittance * alpha;
  *transmittance *= 1 - alpha;
  return weight;
}

// The alpha to composite a sample with. A ray ends at the sample that would leave less
// transmittance than min_transmittance, and that sample gets alpha 1: weights then sum to 1 and no
// background shines through. Its weight no longer depends on its density, so its density gets no
// gradient.
NERF_HD inline float EffectiveAlpha(float alpha, float transmittance, float min_transmittance) {
  return transmittance * (1 - alpha) < min_transmittance ? 1.0f : alpha;
}

// Whether a sample is composited at all: enough light reaches it and its alpha is large enough.
NERF_HD inline bool IsVisible(float transmittance, float alpha, float min_transmittance,
                              float alpha_threshold) {
  return transmittance >= min_transmittance && alpha >= alpha_threshold;
}

// One sample of the backward pass, again front to back. Returns the gradient by sigma:
//   d loss / d sigma_i = delta_i * (transmittance_{i+1} * grad_weight_i - behind_i)
// grad_weight is d loss / d weight_i: Dot(d loss / d color, color_i) plus the terms of other losses
// on weights. behind_i is the sum of grad_weight_j * weight_j over the samples j > i, plus
// Dot(d loss / d color, background) * final transmittance: *behind starts as the sum over all
// samples, and each call subtracts its own sample.
// (The gradient by a sample's color needs no walk: weight_i * d loss / d color.)
NERF_HD inline float CompositeBackwardStep(float grad_weight, float weight, float delta,
                                           float transmittance_behind, float* behind) {
  *behind -= grad_weight * weight;
  // The gradient is 0. Computed, it would be a rounding error, which Adam turns into a full step.
  if (transmittance_behind == 0) return 0;
  return delta * (grad_weight * transmittance_behind - *behind);
}
// The same where no sample is left out: *transmittance starts at 1.
NERF_HD inline float CompositeBackwardStep(float grad_weight, float alpha, float weight,
                                           float delta, float* transmittance, float* behind) {
  *transmittance *= 1 - alpha;
  return CompositeBackwardStep(grad_weight, weight, delta, *transmittance, behind);
}

namespace cuda {

// Maximum number of blocks of 256 threads: one thread per ray in a step of about 2^18 samples.
inline constexpr int kLossBlocks = 256;

// What only some configs ask of the loss. Where a config asks for none of it, another kernel runs,
// which has none of these branches. A pointer that is null and a number that is 0 ask for nothing.
// Shapes: ray_weights, views, depths, ray_errors [n_rays]; view_gains [n_views].
struct CompositeLossExtras {
  // A ray's last sample may lie infinitely far away: its delta is 0, and it has no part in the
  // distortion and in what is below.
  bool has_horizons = false;
  const float* ray_weights = nullptr;  // of rays in the loss of their colors
  const int32_t* views = nullptr;      // whose pictures the rays are of
  const Vec3* view_gains = nullptr;    // a picture shows gain * color in front of the background
  // [n_views][3], added to: gradients by the gains' logarithms, in fixed point (hash_encoding.h),
  // so that sums do not depend on their order.
  int64_t* grad_log_gains = nullptr;
  const float* depths = nullptr;  // DepthAttraction
  float depth_weight = 0;         // in the loss
  float near_gradients = 0;       // NearGradientFactor
  float* ray_errors = nullptr;    // written: mean over channels of |color - target|
  // On the device: 1 or 4 consecutive rays are of one pixel; null: 1. The loss is that of their
  // mean color. n_rays is a multiple of it.
  const uint32_t* rays_per_pixel = nullptr;

  bool AskForNone() const {
    return !has_horizons && ray_weights == nullptr && view_gains == nullptr && depths == nullptr &&
           near_gradients == 0 && ray_errors == nullptr && rays_per_pixel == nullptr;
  }
};

// Composites each ray, computes its loss, and propagates the gradient back to its samples, with one
// thread per ray. The kept samples k of ray r are [ray_offsets[r], ray_offsets[r + 1]); the values
// of sample k are at index rows[k] of the sample arrays.
//   grads[k] = gradient by the color before its sigmoid (3) and by the density's exponent (1),
//   times *gradient_scale, which holds 1 / (rays * channels) and the loss scale. losses[b] = loss
//   and squared residual summed over the rays of block b, both averaged over the channels and each
//   ray's rounded to a multiple of 2^-32, so that sums below 2^21 are exact. Entries of blocks
//   beyond ray_capacity are not written. The loss is that of the color plus *distortion times the
//   distortion (kernels/distortion.h). t_middles is read only if distortion is not null and
//   *distortion is not 0, or with extras.
// Shapes: targets, backgrounds [n_rays]; alphas, deltas, sigmas, weights, t_middles
// [sample_capacity]; colors, grads [kept]; losses [kLossBlocks][2], initially 0.
// Traffic: 56 bytes read and 16 written per sample, 40 read per ray.
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
  const float* step_scale = nullptr;  // factor on the samples' step lengths; null: 1
  const Vec3* colors = nullptr;
  const Vec3* targets = nullptr;
  const Vec3* backgrounds = nullptr;
  const float* gradient_scale = nullptr;
  LossShape loss;
  const float* distortion = nullptr;  // weight in the loss; null: 0
  float* grads = nullptr;             // [kept][4]
  double* losses = nullptr;
  CompositeLossExtras extras = {};
};
void CompositeLoss(const CompositeLossParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
