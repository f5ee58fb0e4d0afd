#include "engine/autograd/autograd_step.h"

#include <torch/torch.h>

#include <cstring>
#include <limits>
#include <vector>

#include "common/status_macros.h"
#include "engine/autograd/composite_op.h"
#include "engine/autograd/density_activation_op.h"
#include "engine/autograd/ngp_field_op.h"
#include "engine/autograd/ray_march.h"
#include "engine/autograd/ray_tensors.h"
#include "engine/kernels/distortion.h"
#include "engine/methods/ngp/state.h"

namespace nerf {
namespace {

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
  torch::Tensor GeometryAt(const autograd::NgpTensors& parameters,
                           const std::vector<Vec3>& positions) const;
  torch::Tensor DensityOf(const torch::Tensor& geometry) const;
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
  const PackedSamples samples = MarchBatch(
      batch, config_, state_.steps(),
      [&](const std::vector<Vec3>& positions) {
        return DensityOf(GeometryAt(parameters, positions));
      },
      &state_.occupancy);
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
  const NgpParameters& p = state_.parameters;
  autograd::NgpTensors tensors;
  tensors.table =
      AsLeaf(p.table(), {p.shape().n_levels, p.shape().entries(), p.shape().n_features});
  for (const NgpLayer& layer : kNgpLayers)
    tensors.layers.push_back(AsLeaf(p.weights() + layer.offset, {layer.n_in, layer.n_out}));
  return tensors;
}

// Features of points in scene units: [n, kGeometryWidth].
torch::Tensor AutogradStep::GeometryAt(const autograd::NgpTensors& parameters,
                                       const std::vector<Vec3>& positions) const {
  std::vector<Vec3> unit(positions.size());
  ToUnitCube(state_.Network().box, static_cast<int>(positions.size()), positions.data(),
             unit.data());
  // A copy: the graph may outlive `unit`.
  return autograd::NgpGeometry(state_.parameters.shape(), parameters, AsTensor(unit).clone());
}

torch::Tensor AutogradStep::DensityOf(const torch::Tensor& geometry) const {
  return autograd::DensityActivation(geometry.select(1, 0), state_.density_shift());
}

RenderedRays AutogradStep::Render(const RayBatch& batch, const autograd::NgpTensors& parameters,
                                  const PackedSamples& samples) const {
  const torch::Tensor ray_offsets = samples.RayOffsets();
  const torch::Tensor geometry = GeometryAt(parameters, samples.positions);
  const torch::Tensor colors =
      autograd::NgpColor(parameters, geometry, AsTensor(samples.directions));
  const autograd::Composited composited =
      autograd::Composite(ray_offsets, DensityOf(geometry), AsTensor(samples.deltas));
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
