#pragma once

#include "engine/base/check.h"
#include "engine/kernels/ray_marching.h"

namespace nerf::kernels {

// How far apart along a ray its weights lie:
//   distortion = sum_ij weight_i weight_j |s_i - s_j| + sum_i weight_i^2 length_i / 3
// for samples in order, s_i the middle and length_i the extent of one. Trained on beside the
// color it gathers fog into surfaces, and a ray that meets a surface needs few samples. Unitless.
// Sources: Barron et al. 2022, "Mip-NeRF 360", eq. 15; the sums in one walk: Sun et al. 2022,
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

// d distortion / d weight_i of the sample that comes next after those in `before`; `ray` has all of
// them. The sum over a ray of this times weight_i is twice the ray's distortion.
NERF_HD inline float DistortionGradient(const Distortion& ray, const Distortion& before,
                                        float sample_weight, float s, float length) {
  const float weight_behind = ray.weight - before.weight - sample_weight;
  const float moment_behind = ray.moment - before.moment - sample_weight * s;
  return 2 * (s * (before.weight - weight_behind) + moment_behind - before.moment +
              sample_weight * length / 3);
}

// Where a sample lies: in stepping space, so that near and far count alike. The unit is 512 of the
// scene's steps, the box's diagonal where steps are its usual 512th and do not grow; with shorter
// ones (setting `step`) the same gap counts for more.
inline constexpr float kDistortionPerStep = 1.0f / 512;
NERF_HD inline float DistortionCoordinate(const MarchSteps& scene_steps, float t) {
  return scene_steps.ToSteps(t) * kDistortionPerStep;
}

}  // namespace nerf::kernels
