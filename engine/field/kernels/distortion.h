#pragma once

#include "engine/base/check.h"
#include "engine/field/kernels/ray_marching.h"

namespace nerf::kernels {

// Distortion loss of a ray: how far apart its weights lie.
//   distortion = sum_ij weight_i weight_j |s_i - s_j| + sum_i weight_i^2 length_i / 3
// s_i is the middle and length_i the extent of sample i; samples are added front to back. As a
// second loss it condenses fog into surfaces, so that rays need fewer samples. Unitless.
// Sources: Barron et al. 2022, "Mip-NeRF 360", eq. 15; the sums in one pass: Sun et al. 2022,
// "Improved Direct Voxel Grid Optimization for Radiance Fields Reconstruction", eq. 2.
struct Distortion {
  float value = 0;
  float weight = 0, moment = 0;  // sums of weight_i and of weight_i * s_i

  NERF_HD void Add(float sample_weight, float s, float length) {
    value += sample_weight * (2 * (s * weight - moment) + sample_weight * length / 3);
    weight += sample_weight;
    moment += sample_weight * s;
  }
};

// d distortion / d weight_i. `ray` holds all samples, `before` those in front of sample i. (The sum
// of this times weight_i over a ray is twice the ray's distortion.)
NERF_HD inline float DistortionGradient(const Distortion& ray, const Distortion& before,
                                        float sample_weight, float s, float length) {
  const float weight_behind = ray.weight - before.weight - sample_weight;
  const float moment_behind = ray.moment - before.moment - sample_weight * s;
  return 2 * (s * (before.weight - weight_behind) + moment_behind - before.moment +
              sample_weight * length / 3);
}

// The coordinate s of a sample: its position in stepping space (MarchSteps), so that near and far
// gaps count alike, in units of 512 of the scene's steps. With the default step this unit is the
// diagonal of the box; with a shorter `step` the same gap counts for more.
inline constexpr float kDistortionPerStep = 1.0f / 512;
NERF_HD inline float DistortionCoordinate(const MarchSteps& scene_steps, float t) {
  return scene_steps.ToSteps(t) * kDistortionPerStep;
}

}  // namespace nerf::kernels
