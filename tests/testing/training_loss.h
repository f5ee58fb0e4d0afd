#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/field/kernels/distortion.h"
#include "engine/field/kernels/ray_marching.h"
#include "engine/field/occupancy_grid.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/network.h"
#include "engine/train/batch/ray_batch.h"
#include "engine/train/training_step.h"
#include "engine/views/render/renderer.h"
#include "tests/testing/reference/composite.h"
#include "tests/testing/reference/distortion.h"
#include "tests/testing/reference/ngp_field.h"

namespace nerf::reference {

// ToEncodedCube of one position, in double precision.
inline Vec3 EncodedPlace(const NgpNetwork& network, Vec3 position) {
  if (network.contraction == Contraction::kPerspective) {
    const Frustum& frustum = network.frustum;
    const Vec3 axes[] = {frustum.right, frustum.up, frustum.forward};
    double along[3] = {};
    for (int axis = 0; axis < 3; ++axis) {
      for (int i = 0; i < 3; ++i)
        along[axis] += (double{position[i]} - frustum.apex[i]) * axes[axis][i];
    }
    const double depth = std::max(along[2], double{frustum.near});
    return {static_cast<float>(0.5 + 0.5 * along[0] / (frustum.slope * depth)),
            static_cast<float>(0.5 + 0.5 * along[1] / (frustum.slope * depth)),
            static_cast<float>(0.5 * (1 - frustum.near / depth))};
  }
  const bool contracted = network.contraction != Contraction::kNone;
  const Aabb& box = contracted ? network.inner_box : network.box;
  double p[3], largest = 0, squared = 0;
  for (int i = 0; i < 3; ++i) {
    p[i] = 2 * (double{position[i]} - box.min[i]) / box.Size()[i] - 1;
    largest = std::max(largest, std::abs(p[i]));
    squared += p[i] * p[i];
  }
  Vec3 unit;
  if (!contracted) {
    for (int i = 0; i < 3; ++i) unit[i] = static_cast<float>((p[i] + 1) / 2);
    return unit;
  }
  const double norm = network.contraction == Contraction::kL2 ? std::sqrt(squared) : largest;
  const double shrink = norm > 1 ? (2 - 1 / norm) / norm : 1;
  for (int i = 0; i < 3; ++i) unit[i] = static_cast<float>((p[i] * shrink + 2) / 4);
  return unit;
}

// Loss of a batch in double precision over all samples: marching by the kernel, everything else by
// the references. network_at(position) is the network that a sample there is asked of, one of
// several of equal settings. log_gains [n_views][3]: exposures of views, if there are any;
// view_terms [n_views][kHiddenWidth]: their appearances.
template <typename NetworkAt>
StepResult TrainingLossOf(const TrainConfig& config, const NetworkAt& network_at,
                          const OccupancyGrid& grid, const kernels::MarchSteps& scene_steps,
                          const RayBatch& batch, const std::vector<float>& log_gains = {},
                          const std::vector<float>& view_terms = {}) {
  const NgpNetwork& network = network_at(Vec3());
  const kernels::MarchSteps steps = scene_steps.Scaled(batch.step_scale);
  StepResult result;
  result.n_rays = batch.n_rays;
  const kernels::MarchGrid march_grid = MarchGridOf(grid);
  const auto seen_by = [&](int ray, NgpNetwork seen) {
    if (!view_terms.empty())
      seen.appearance = view_terms.data() + size_t{kHiddenWidth} * batch.views[ray];
    return seen;
  };
  for (int r = 0; r < batch.n_rays; ++r) {
    const Ray& ray = batch.rays[r];
    kernels::MarchRay march = kernels::StartMarch(march_grid, steps, ray, batch.jitters[r]);
    std::vector<float> t_middles(2048), deltas(2048);
    const int n =
        kernels::MarchSamples(march_grid, steps, 2048, &march, t_middles.data(), deltas.data());
    std::vector<double> sigmas, places, lengths(deltas.begin(), deltas.begin() + n);
    std::vector<FieldSample> samples;
    for (int i = 0; i < n; ++i) {
      const Vec3 position = ray.origin + ray.direction * t_middles[i];
      const Vec3 unit = EncodedPlace(network, position);
      samples.push_back(NgpFieldAt(seen_by(r, network_at(position)), unit, ray.direction));
      sigmas.push_back(samples.back().sigma);
      places.push_back(kernels::DistortionCoordinate(scene_steps, t_middles[i]));
    }
    const int offsets[] = {0, n};
    const CompositeResult composite = CompositeForward(offsets, sigmas, lengths);
    FieldSample horizon{};
    if (network.learns_background) {
      const Aabb& box = network.contraction == Contraction::kNone ? network.box : network.inner_box;
      const bool by_length = network.contraction == Contraction::kL2;
      double norm = 0;
      for (int i = 0; i < 3; ++i) norm = std::max(norm, std::abs(double{ray.direction[i]}));
      if (by_length) norm = 1;
      const double far = network.contraction == Contraction::kNone ? 0.5 * box.Size().x : 1e9;
      Vec3 place = box.Center();
      for (int i = 0; i < 3; ++i) place[i] += static_cast<float>(far / norm * ray.direction[i]);
      horizon = NgpFieldAt(seen_by(r, network), EncodedPlace(network, place), ray.direction);
      result.n_marched += 1;
    }
    for (int c = 0; c < 3; ++c) {
      const double behind = network.learns_background ? horizon.color[c] : batch.backgrounds[r][c];
      const double gain = log_gains.empty() ? 1 : std::exp(log_gains[3 * batch.views[r] + c]);
      const double behind_gain = network.learns_background ? gain : 1;
      double color = composite.ray_transmittance[0] * behind * behind_gain;
      for (int i = 0; i < n; ++i) color += gain * composite.weights[i] * samples[i].color[c];
      const double residual = color - batch.targets[r][c], size = std::abs(residual);
      const bool linear = config.loss == Loss::kHuber && size > config.huber_delta;
      result.loss += (linear ? config.huber_delta * (size - 0.5 * config.huber_delta)
                             : 0.5 * residual * residual) /
                     (3.0 * batch.n_rays);
      result.squared_error += residual * residual / (3.0 * batch.n_rays);
    }
    result.loss += batch.distortion *
                   Distortion(composite.weights, places, batch.step_scale / 512.0) / batch.n_rays;
    if (!batch.depths.empty() && batch.depths[r] > 0) {
      double near = 0;
      for (int i = 0; i < n; ++i) {
        const double away = std::abs(t_middles[i] - double{batch.depths[r]});
        near += composite.weights[i] * std::max(0.0, 1 - away / (0.1 * batch.depths[r]));
      }
      result.loss += Ngp(config).depth_weight * (1 - near) / batch.n_rays;
    }
    result.n_marched += n;
  }
  return result;
}

inline StepResult TrainingLoss(const TrainConfig& config, const NgpNetwork& network,
                               const OccupancyGrid& grid, const kernels::MarchSteps& scene_steps,
                               const RayBatch& batch, const std::vector<float>& log_gains = {},
                               const std::vector<float>& view_terms = {}) {
  return TrainingLossOf(
      config, [&](Vec3 /*position*/) -> const NgpNetwork& { return network; }, grid, scene_steps,
      batch, log_gains, view_terms);
}

}  // namespace nerf::reference
