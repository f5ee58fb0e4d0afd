#pragma once

#include <span>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/base/ray.h"
#include "engine/base/vec3.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/proposal_sampling.h"
#include "engine/train/batch/ray_batch.h"

namespace nerf {

// A training step with proposals but for the networks: where samples lie, what they show, and the
// gradients of their densities and colors.

// What the same step has for all rays.
struct ProposalPlan {
  const TrainConfig* config = nullptr;
  NgpNetwork proposal, field;  // where they are; parameters are not read
  bool disparity = false;
  float exponent = 1;  // AnnealedExponent
  const RayBatch* batch = nullptr;
};

// The samples of some rays in one network, ray by ray.
struct ProposalRows {
  void Resize(int rays, int per_ray);
  int size() const { return n_rays * n_per_ray; }
  float* EdgesOf(int ray) { return edges.data() + static_cast<size_t>(ray) * (n_per_ray + 1); }
  float Middle(int row) const {
    const float* const edge = edges.data() + row + ray_of[row];
    return 0.5f * (edge[0] + edge[1]);
  }
  float Length(int row) const {
    const float* const edge = edges.data() + row + ray_of[row];
    return edge[1] - edge[0];
  }
  // Points and lengths of the intervals between the edges.
  void Place(const NgpNetwork& network, const Ray* rays, const RaySpan* spans);
  // Their weights, by their densities. The last one of a ray takes all light that is left if
  // `has_end`.
  void Weigh(bool has_end);

  int n_rays = 0, n_per_ray = 0;
  std::vector<float> edges, deltas, sigmas, alphas, weights, grad_sigmas;
  std::vector<Vec3> unit, colors, grad_colors;
  std::vector<int> ray_of;
};

// Up to kMaxRays rays. Between the calls the caller evaluates `proposals`, then `samples`.
class ProposalRays {
 public:
  static constexpr int kMaxRays = 16;

  // Rays [begin, end) of the batch, without those that miss the box: they show the background, from
  // which nothing is learned. Places the proposal's samples. Returns false if no ray is left.
  bool Begin(const ProposalPlan& plan, int begin, int end);
  // After the proposal's densities: places the field's samples.
  void Resample(const ProposalPlan& plan);
  // After the field's densities and colors: the gradients of both. Adds the rays' losses and
  // squared errors, means over channels.
  void FindGradients(const ProposalPlan& plan, double* loss, double* squared_error);

  std::span<const Ray> rays() const { return {rays_, static_cast<size_t>(n_rays_)}; }
  ProposalRows proposals, samples;

 private:
  void LossOfRay(const ProposalPlan& plan, int r, double* loss, double* squared_error);
  void ProposalLossOfRay(const ProposalPlan& plan, int r);

  int n_rays_ = 0;
  Ray rays_[kMaxRays];
  RaySpan spans_[kMaxRays];
  int indices_[kMaxRays];
  std::vector<float> grad_weights_;
};

}  // namespace nerf
