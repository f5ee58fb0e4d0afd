#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"
#include "engine/train/batch/ray_batch.h"

namespace nerf {

// The samples of some rays in one of two networks (`coarse_samples`), n_per_ray each: all of a
// training step but the network. Rays are independent of each other, so that threads may divide
// them: members that take a ray read and write that ray's samples alone.
struct PairSamples {
  void Resize(int rays, int per_ray);
  int size() const { return n_rays * n_per_ray; }

  // Where the coarse samples of ray r lie, which is ray `index` of the batch; and the fine ones,
  // from the coarse weights.
  void PlaceCoarse(const TrainConfig& config, const RayBatch& batch, int r, int index);
  void PlaceFine(const TrainConfig& config, const RayBatch& batch, int r, int index,
                 const PairSamples& coarse);
  // Alphas and weights of ray r from its densities.
  void Composite(int r);
  // The gradients by densities and colors of ray r, ray `index` of the batch. Adds its loss, and
  // returns its squared error; both are means over channels.
  double LossAndGradients(const TrainConfig& config, const RayBatch& batch, int r, int index,
                          double* loss);

  int n_rays = 0, n_per_ray = 0;
  std::vector<float> ts, lengths, sigmas, alphas, weights, grad_sigmas;
  std::vector<Vec3> positions, colors, grad_colors;
  std::vector<int> ray_of;

 private:
  void Place(const Ray& ray, int r);
};

// Rays whose samples lie somewhere: t_near < t_far (BoundsOfRay).
std::vector<int> RaysWithSamples(const RayBatch& batch, int begin, int end);

}  // namespace nerf
