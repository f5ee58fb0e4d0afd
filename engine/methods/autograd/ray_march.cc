#include "engine/methods/autograd/ray_march.h"

#include <algorithm>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/distortion.h"
#include "engine/field/occupancy_grid.h"

namespace nerf {
namespace {

constexpr int kWaveSamples = 8;        // samples per ray between checks of its transmittance
constexpr float kOpaqueDepth = 60;     // optical depth of a sample whose effective alpha is 1
constexpr float kMinDensity = 1e-30f;  // so that the length of an opaque sample is finite

// A ray's march through the grid and the samples kept so far.
struct RayState {
  kernels::MarchRay march;
  float transmittance = 1;
  float time = 0;
  bool done = false;
  std::vector<Vec3> positions;
  std::vector<float> deltas, normalized_ts;
};

// The next samples of each ray.
struct Wave {
  std::vector<Vec3> positions;
  std::vector<float> deltas, normalized_ts, times;
  std::vector<uint32_t> cells;
  std::vector<RayState*> ray_of;
};

Wave MarchWave(const kernels::MarchGrid& grid, const kernels::MarchSteps& steps, float step_scale,
               std::vector<RayState>* rays) {
  const kernels::MarchSteps scaled = steps.Scaled(step_scale);
  Wave wave;
  for (RayState& ray : *rays) {
    if (ray.done) continue;
    float t_middles[kWaveSamples], lengths[kWaveSamples];
    uint32_t cells[kWaveSamples];
    const int found =
        kernels::MarchSamples(grid, scaled, kWaveSamples, &ray.march, t_middles, lengths, cells);
    ray.done = found < kWaveSamples;
    for (int i = 0; i < found; ++i) {
      wave.positions.push_back(ray.march.origin + ray.march.direction * t_middles[i]);
      wave.normalized_ts.push_back(kernels::DistortionCoordinate(steps, t_middles[i]));
    }
    wave.deltas.insert(wave.deltas.end(), lengths, lengths + found);
    wave.times.insert(wave.times.end(), found, ray.time);
    wave.cells.insert(wave.cells.end(), cells, cells + found);
    wave.ray_of.insert(wave.ray_of.end(), found, &ray);
  }
  return wave;
}

// Keeps the samples of the wave that are visible with these densities.
void KeepVisible(const Wave& wave, const float* sigmas, const TrainConfig& config) {
  const float limit = MinTransmittance(config);
  for (size_t i = 0; i < wave.deltas.size(); ++i) {
    RayState& ray = *wave.ray_of[i];
    const float alpha = kernels::AlphaFromDensity(sigmas[i], wave.deltas[i]);
    if (!kernels::IsVisible(ray.transmittance, alpha, limit, config.alpha_threshold)) {
      continue;
    }
    const float effective_alpha = kernels::EffectiveAlpha(alpha, ray.transmittance, limit);
    kernels::CompositeForwardStep(effective_alpha, &ray.transmittance);
    if (ray.transmittance < limit) ray.done = true;
    ray.positions.push_back(wave.positions[i]);
    ray.normalized_ts.push_back(wave.normalized_ts[i]);
    // Long enough to stop all light, and for a gradient of the density that vanishes.
    ray.deltas.push_back(effective_alpha > alpha ? kOpaqueDepth / std::max(sigmas[i], kMinDensity)
                                                 : wave.deltas[i]);
  }
}

}  // namespace

torch::Tensor PackedSamples::RayOffsets() const {
  return torch::from_blob(const_cast<int64_t*>(ray_offsets.data()),
                          {static_cast<int64_t>(ray_offsets.size())}, torch::kInt64);
}

PackedSamples MarchBatch(const RayBatch& batch, const TrainConfig& config,
                         const kernels::MarchSteps& steps, const DensityAt& density,
                         OccupancyUpdater* occupancy) {
  RECORD_USER_SCOPE("march");
  const torch::NoGradGuard no_grad;
  const kernels::MarchGrid grid = MarchGridOf(occupancy->grid());
  std::vector<RayState> rays(batch.n_rays);
  for (int r = 0; r < batch.n_rays; ++r) {
    rays[r].march =
        kernels::StartMarch(grid, steps.Scaled(batch.step_scale), batch.rays[r], batch.jitters[r]);
    if (!batch.times.empty()) rays[r].time = batch.times[r];
  }
  PackedSamples samples;
  for (int marched = 0; marched < kernels::kMaxSamplesPerRay; marched += kWaveSamples) {
    const Wave wave = MarchWave(grid, steps, batch.step_scale, &rays);
    if (wave.deltas.empty()) break;
    const torch::Tensor sigmas = density(wave.positions, wave.times).contiguous();
    KeepVisible(wave, sigmas.data_ptr<float>(), config);
    occupancy->Observe(wave.cells, {sigmas.data_ptr<float>(), wave.deltas.size()});
    samples.cells.insert(samples.cells.end(), wave.cells.begin(), wave.cells.end());
    samples.sigmas.insert(samples.sigmas.end(), sigmas.data_ptr<float>(),
                          sigmas.data_ptr<float>() + wave.deltas.size());
  }
  samples.ray_offsets.push_back(0);
  for (int r = 0; r < batch.n_rays; ++r) {
    const RayState& ray = rays[r];
    samples.positions.insert(samples.positions.end(), ray.positions.begin(), ray.positions.end());
    samples.directions.insert(samples.directions.end(), ray.deltas.size(), batch.rays[r].direction);
    samples.times.insert(samples.times.end(), ray.deltas.size(), ray.time);
    samples.deltas.insert(samples.deltas.end(), ray.deltas.begin(), ray.deltas.end());
    samples.normalized_ts.insert(samples.normalized_ts.end(), ray.normalized_ts.begin(),
                                 ray.normalized_ts.end());
    samples.ray_offsets.push_back(static_cast<int64_t>(samples.deltas.size()));
  }
  return samples;
}

}  // namespace nerf
