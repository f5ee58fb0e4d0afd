#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/config/train_config.h"
#include "engine/field/occupancy_grid.h"
#include "engine/kernels/distortion.h"
#include "engine/kernels/ray_marching.h"
#include "engine/methods/ngp/network.h"
#include "engine/render/renderer.h"
#include "engine/train/ray_batch.h"
#include "engine/train/training_step.h"
#include "tests/testing/reference/composite.h"
#include "tests/testing/reference/distortion.h"
#include "tests/testing/reference/ngp_field.h"

namespace nerf::reference {

// Loss of a batch in double precision over all samples: marching by the kernel, everything else by
// the references.
inline StepResult TrainingLoss(const TrainConfig& config, const NgpNetwork& network,
                               const OccupancyGrid& grid, const kernels::MarchSteps& scene_steps,
                               const RayBatch& batch) {
  const kernels::MarchSteps steps = scene_steps.Scaled(batch.step_scale);
  StepResult result;
  result.n_rays = batch.n_rays;
  const kernels::MarchGrid march_grid = MarchGridOf(grid);
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
      Vec3 unit;
      ToUnitCube(network.box, 1, &position, &unit);
      samples.push_back(NgpFieldAt(network, unit, ray.direction));
      sigmas.push_back(samples.back().sigma);
      places.push_back(kernels::DistortionCoordinate(scene_steps, t_middles[i]));
    }
    const int offsets[] = {0, n};
    const CompositeResult composite = CompositeForward(offsets, sigmas, lengths);
    for (int c = 0; c < 3; ++c) {
      double color = composite.ray_transmittance[0] * batch.backgrounds[r][c];
      for (int i = 0; i < n; ++i) color += composite.weights[i] * samples[i].color[c];
      const double residual = color - batch.targets[r][c], size = std::abs(residual);
      const bool linear = config.loss == Loss::kHuber && size > config.huber_delta;
      result.loss += (linear ? config.huber_delta * (size - 0.5 * config.huber_delta)
                             : 0.5 * residual * residual) /
                     (3.0 * batch.n_rays);
      result.squared_error += residual * residual / (3.0 * batch.n_rays);
    }
    result.loss += batch.distortion *
                   Distortion(composite.weights, places, batch.step_scale / 512.0) / batch.n_rays;
    result.n_marched += n;
  }
  return result;
}

}  // namespace nerf::reference
