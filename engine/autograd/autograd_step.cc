#include "engine/autograd/autograd_step.h"

#include <torch/torch.h>

#include <cstring>
#include <limits>
#include <vector>

#include "common/status_macros.h"
#include "engine/autograd/composite_op.h"
#include "engine/autograd/density_activation_op.h"
#include "engine/autograd/ngp_field_op.h"
#include "engine/autograd/ray_tensors.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/composite.h"
#include "engine/kernels/distortion.h"
#include "engine/methods/ngp/state.h"

namespace nerf {
namespace {

constexpr int kMaxSamplesPerRay = 2048;

// The samples that are visible (kernels::IsVisible), sorted by ray.
struct PackedSamples {
  std::vector<int64_t> ray_offsets;  // [n_rays + 1]
  std::vector<Vec3> positions;       // unit cube
  std::vector<float> deltas;
  std::vector<float> normalized_ts;  // kernels::DistortionCoordinate
  int64_t n_marched = 0;
};

// A ray's march through the grid and the samples kept so far.
struct RayState {
  kernels::MarchRay march;
  float transmittance = 1;
  bool done = false;
  std::vector<Vec3> positions;
  std::vector<float> deltas, normalized_ts;
};

// Rays with their samples composited.
struct RenderedRays {
  torch::Tensor colors;       // [n_rays, 3], on the rays' backgrounds
  torch::Tensor distortions;  // [n_rays]
};

class AutogradStep : public RayStep {
 public:
  AutogradStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
               std::span<const View> views)
      : RayStep(config, geometry, views, pool),
        config_(config),
        pool_(pool),
        state_(WithoutHalfTable(config), geometry) {
    // Otherwise the scatter into the table would add in an arbitrary order.
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::set_num_threads(pool->n_threads());
  }

  StepResult RunRays(const RayBatch& batch) override {
    return WithBadAlloc([&] { return RunBatch(batch); });
  }
  void Save(TensorFile* file) const override {
    state_.Save(file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_RETURN_IF_ERROR(state_.Load(file));
    ray_count().Restore(rays);
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override { state_.SaveModel(file); }
  absl::Status Initialize(const TensorFile& file) override { return state_.Initialize(file); }
  std::unique_ptr<TrainedModel> Snapshot() const override { return state_.Snapshot(); }
  double OccupiedFraction() const override { return state_.occupancy.grid().OccupiedFraction(); }
  void ReopenGrid() override { state_.occupancy.Reopen(); }

 private:
  StepResult RunBatch(const RayBatch& batch);
  autograd::NgpTensors Parameters() const;
  PackedSamples March(const RayBatch& batch, const autograd::NgpTensors& parameters);
  void MarchWave(const RayBatch& batch, const autograd::NgpTensors& parameters,
                 std::vector<RayState>* rays, PackedSamples* samples);
  RenderedRays Render(const RayBatch& batch, const autograd::NgpTensors& parameters,
                      const PackedSamples& samples) const;
  void UpdateParameters(const RayBatch& batch, const autograd::NgpTensors& parameters);

  const TrainConfig config_;
  ThreadPool* const pool_;
  NgpState state_;
};

StepResult AutogradStep::RunBatch(const RayBatch& batch) {
  if (state_.occupancy.IsDue(batch.step))
    state_.occupancy.Update(ProbedDensity(state_.Network()), batch.step, pool_);
  const autograd::NgpTensors parameters = Parameters();
  const PackedSamples samples = March(batch, parameters);
  const RenderedRays rendered = Render(batch, parameters, samples);
  const torch::Tensor residuals = rendered.colors - AsTensor(batch.targets);
  torch::Tensor losses = LossOf(config_, residuals);
  if (!batch.weights.empty()) losses = losses * AsTensor(batch.weights).unsqueeze(1);
  StepResult result;
  result.n_rays = batch.n_rays;
  result.n_marched = samples.n_marched;
  result.n_trained = samples.ray_offsets.back();
  const torch::Tensor loss =
      losses.mean(torch::kFloat64) + batch.distortion * rendered.distortions.mean(torch::kFloat64);
  result.loss = loss.item<double>();
  result.squared_error = residuals.detach().square().mean(torch::kFloat64).item<double>();
  if (result.n_trained > 0) (loss * config_.loss_scale).backward();
  UpdateParameters(batch, parameters);
  if (!state_.parameters.WeightsAreFinite()) result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Leaf tensors that share the parameters' memory.
autograd::NgpTensors AutogradStep::Parameters() const {
  const auto leaf = [](const float* values, torch::IntArrayRef shape) {
    return torch::from_blob(const_cast<float*>(values), shape, torch::kFloat32)
        .requires_grad_(true);
  };
  const NgpParameters& p = state_.parameters;
  autograd::NgpTensors tensors;
  tensors.table = leaf(p.table(), {p.shape().n_levels, p.shape().entries(), p.shape().n_features});
  for (const NgpLayer& layer : kNgpLayers)
    tensors.layers.push_back(leaf(p.weights() + layer.offset, {layer.n_in, layer.n_out}));
  return tensors;
}

PackedSamples AutogradStep::March(const RayBatch& batch, const autograd::NgpTensors& parameters) {
  const torch::NoGradGuard no_grad;
  const kernels::MarchGrid grid = MarchGridOf(state_.occupancy.grid());
  const kernels::MarchSteps steps = state_.steps().Scaled(batch.step_scale);
  std::vector<RayState> rays(batch.n_rays);
  for (int r = 0; r < batch.n_rays; ++r)
    rays[r].march = kernels::StartMarch(grid, steps, batch.rays[r], batch.jitters[r]);
  PackedSamples samples;
  for (int marched = 0; marched < kMaxSamplesPerRay; marched += kWaveSamples) {
    const int64_t before = samples.n_marched;
    MarchWave(batch, parameters, &rays, &samples);
    if (samples.n_marched == before) break;
  }
  samples.ray_offsets.push_back(0);
  for (const RayState& ray : rays) {
    samples.positions.insert(samples.positions.end(), ray.positions.begin(), ray.positions.end());
    samples.deltas.insert(samples.deltas.end(), ray.deltas.begin(), ray.deltas.end());
    samples.normalized_ts.insert(samples.normalized_ts.end(), ray.normalized_ts.begin(),
                                 ray.normalized_ts.end());
    samples.ray_offsets.push_back(static_cast<int64_t>(samples.deltas.size()));
  }
  return samples;
}

// Marches the next samples of each ray, evaluates their densities, and keeps those that are
// visible.
void AutogradStep::MarchWave(const RayBatch& batch, const autograd::NgpTensors& parameters,
                             std::vector<RayState>* rays, PackedSamples* samples) {
  const kernels::MarchGrid grid = MarchGridOf(state_.occupancy.grid());
  const kernels::MarchSteps steps = state_.steps().Scaled(batch.step_scale);
  std::vector<Vec3> positions;
  std::vector<float> deltas, normalized_ts;
  std::vector<uint32_t> cells;
  std::vector<RayState*> ray_of;
  for (RayState& ray : *rays) {
    if (ray.done) continue;
    float t_middles[kWaveSamples], lengths[kWaveSamples];
    uint32_t found_cells[kWaveSamples];
    const int found = kernels::MarchSamples(grid, steps, kWaveSamples, &ray.march, t_middles,
                                            lengths, found_cells);
    ray.done = found < kWaveSamples;
    for (int i = 0; i < found; ++i) {
      positions.push_back(ray.march.origin + ray.march.direction * t_middles[i]);
      normalized_ts.push_back(kernels::DistortionCoordinate(state_.steps(), t_middles[i]));
    }
    deltas.insert(deltas.end(), lengths, lengths + found);
    cells.insert(cells.end(), found_cells, found_cells + found);
    ray_of.insert(ray_of.end(), found, &ray);
  }
  const int n = static_cast<int>(deltas.size());
  if (n == 0) return;
  ToUnitCube(state_.Network().box, n, positions.data(), positions.data());
  const torch::Tensor geometry =
      autograd::NgpGeometry(state_.parameters.shape(), parameters, AsTensor(positions));
  const torch::Tensor sigmas =
      autograd::DensityActivation(geometry.select(1, 0), state_.density_shift()).contiguous();
  const float* sigma = sigmas.data_ptr<float>();
  for (int i = 0; i < n; ++i) {
    RayState& ray = *ray_of[i];
    const float alpha = kernels::AlphaFromDensity(sigma[i], deltas[i]);
    if (!kernels::IsVisible(ray.transmittance, alpha, config_.min_transmittance,
                            config_.alpha_threshold)) {
      continue;
    }
    const float effective_alpha =
        kernels::EffectiveAlpha(alpha, ray.transmittance, config_.min_transmittance);
    kernels::CompositeForwardStep(effective_alpha, &ray.transmittance);
    if (ray.transmittance < config_.min_transmittance) ray.done = true;
    ray.positions.push_back(positions[i]);
    ray.normalized_ts.push_back(normalized_ts[i]);
    // Long enough to stop all light, and for a gradient of the density that vanishes.
    ray.deltas.push_back(effective_alpha > alpha ? kOpaqueDepth / sigma[i] : deltas[i]);
  }
  state_.occupancy.Observe(cells, {sigma, static_cast<size_t>(n)});
  samples->n_marched += n;
}

RenderedRays AutogradStep::Render(const RayBatch& batch, const autograd::NgpTensors& parameters,
                                  const PackedSamples& samples) const {
  const torch::Tensor ray_offsets = torch::from_blob(
      const_cast<int64_t*>(samples.ray_offsets.data()), {batch.n_rays + 1}, torch::kInt64);
  std::vector<Vec3> directions;
  directions.reserve(samples.positions.size());
  for (int r = 0; r < batch.n_rays; ++r) {
    directions.insert(directions.end(), samples.ray_offsets[r + 1] - samples.ray_offsets[r],
                      batch.rays[r].direction);
  }
  const torch::Tensor geometry =
      autograd::NgpGeometry(state_.parameters.shape(), parameters, AsTensor(samples.positions));
  const torch::Tensor sigmas =
      autograd::DensityActivation(geometry.select(1, 0), state_.density_shift());
  const torch::Tensor colors = autograd::NgpColor(parameters, geometry, AsTensor(directions));
  const autograd::Composited composited =
      autograd::Composite(ray_offsets, sigmas, AsTensor(samples.deltas));
  return {.colors = autograd::SumOverRays(ray_offsets, composited.weights.unsqueeze(1) * colors) +
                    composited.transmittance.unsqueeze(1) * AsTensor(batch.backgrounds),
          .distortions =
              autograd::Distortion(ray_offsets, composited.weights, AsTensor(samples.normalized_ts),
                                   batch.step_scale * kernels::kDistortionPerStep)};
}

// Hands autograd's gradients to the optimizer that the fused step uses.
void AutogradStep::UpdateParameters(const RayBatch& batch, const autograd::NgpTensors& parameters) {
  NgpParameters& p = state_.parameters;
  const int t = static_cast<int>(++state_.n_updates);
  for (int i = 0; i < kNgpLayerCount; ++i) {
    const torch::Tensor& gradient = parameters.layers[i].grad();
    if (!gradient.defined()) continue;
    std::memcpy(p.weight_gradients(0) + kNgpLayers[i].offset,
                gradient.contiguous().data_ptr<float>(), gradient.nbytes());
  }
  p.UpdateWeights(batch.learning_rate, t);
  if (parameters.table.grad().defined()) {
    const torch::Tensor gradient = parameters.table.grad().contiguous();
    LevelGradients gradients(p.shape());
    for (int level = 0; level < p.shape().n_levels; ++level) {
      std::memcpy(gradients.values.data(),
                  gradient.data_ptr<float>() + p.shape().level_size() * level,
                  gradients.values.byte_size());
      // Visit every line; elements with zero gradient are not updated.
      std::memset(gradients.touched.data(), 1, gradients.touched.size());
      p.UpdateTableLevel(level, batch.learning_rate, t, &gradients);
    }
  }
  if (state_.n_updates % kNgpAverageInterval == 0) p.UpdateAverages(kNgpAverageInterval, pool_);
}

}  // namespace

std::unique_ptr<RayStep> NewAutogradStep(const TrainConfig& config, const SceneGeometry& geometry,
                                         ThreadPool* pool, std::span<const View> views) {
  return std::make_unique<AutogradStep>(config, geometry, pool, views);
}

}  // namespace nerf
