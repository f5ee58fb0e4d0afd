#pragma once

#include "engine/base/config/train_config.h"
#include "engine/base/ray.h"
#include "engine/scene/scene.h"

namespace nerf {

// Hierarchical samples of a ray. Source: Mildenhall et al. 2020, section 5.2, with the conventions
// of its authors' code.

// Positions of n samples: at even distances from t_near to t_far or, with jitters [n] in [0, 1),
// one at random in each interval between the middles of those.
void UniformSamples(float t_near, float t_far, int n, const float* jitters, float* ts);

// Adds n_fine samples where the n_coarse weights are: by the inverse of their cumulative
// distribution at us [n_fine] in [0, 1], or at even distances from 0 to 1 if us is null. merged
// [n_coarse + n_fine] holds both kinds, ascending. Requires: n_coarse >= 3.
void ImportanceSamples(int n_coarse, const float* ts, const float* weights, int n_fine,
                       const float* us, float* merged);

// Where samples of a ray lie.
struct RayBounds {
  float t_near = 0, t_far = 0;
  bool IsEmpty() const { return !(t_near < t_far); }
};
// From the scene's near to the setting `far`; where that is negative, the part of the ray in the
// outermost box. axis: where the camera looks, unit length; read with depth_planes alone.
RayBounds BoundsOfRay(const TrainConfig& config, const SceneGeometry& geometry, const Ray& ray,
                      Vec3 axis);

// Samples of a ray in the coarse and in the fine network, the latter with the former among them.
int CoarseSamples(const TrainConfig& config);
int FineSamples(const TrainConfig& config);

// The interval that a sample stands for: up to the next one; that of the last has no end.
void SampleLengths(int n, const float* ts, float* lengths);

}  // namespace nerf
