#include "engine/methods/autograd/mlp_autograd_step.h"

#include <torch/torch.h>

#include <limits>
#include <optional>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/probe_time.h"
#include "engine/field/parameters/update_count.h"
#include "engine/methods/autograd/autocast_scope.h"
#include "engine/methods/autograd/checkpoint_op.h"
#include "engine/methods/autograd/composite_op.h"
#include "engine/methods/autograd/mlp_tensors.h"
#include "engine/methods/autograd/ray_march.h"
#include "engine/methods/autograd/ray_tensors.h"
#include "engine/methods/autograd/torch_ray_step.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/field_evaluator.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"
#include "engine/train/occupancy_file.h"
#include "engine/train/occupancy_updater.h"

namespace nerf {
namespace {

class MlpAutogradStep final : public TorchRayStep {
 public:
  MlpAutogradStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
                  std::span<const View> views, const torch::Device& device)
      : TorchRayStep(config, geometry, views, pool),
        config_(config),
        geometry_(geometry),
        pool_(pool),
        device_(device),
        box_(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)))),
        placement_(MlpPlacementOf(box_)),
        parameters_(config),
        occupancy_(config, geometry) {
    at::set_num_threads(pool->n_threads());
  }

  void Save(TensorFile* file) const override {
    parameters_.Save(file);
    StoreOccupancy(occupancy_, file);
    SaveUpdateCount(n_updates_, file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
    MlpParameters loaded(config_);
    NERF_RETURN_IF_ERROR(loaded.Load(file));
    NERF_RETURN_IF_ERROR(LoadOccupancy(file, geometry_, &occupancy_));
    n_updates_ = n_updates;
    ray_count().Restore(rays);
    return parameters_.Load(file);
  }
  void SaveModel(TensorFile* file) const override {
    parameters_.SaveModel(file);
    StoreOccupancyBits(occupancy_.grid(), file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_RETURN_IF_ERROR(parameters_.Initialize(file));
    InitializeOccupancy(file, geometry_, &occupancy_);
    n_updates_ = 0;
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    return NewMlpGridModel(config_, geometry_, parameters_.Evaluation(), occupancy_.grid());
  }
  double OccupiedFraction() const override { return occupancy_.grid().OccupiedFraction(); }
  void ReopenGrid() override { occupancy_.Reopen(); }
  void KeepEmpty(const EmptyCells& cells) override {
    occupancy_.KeepEmpty(cells(occupancy_.grid()));
  }

 private:
  StepResult RunBatch(const RayBatch& batch) override;
  MlpNetwork FieldNetwork() const { return parameters_.Network(0, placement_); }
  std::optional<MlpNetwork> WarpNetwork() const {
    if (parameters_.n_networks() == 1) return std::nullopt;
    return parameters_.Network(1, placement_);
  }
  void UpdateOccupancy(uint32_t step);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  const torch::Device device_;  // of the networks' tensors
  const Aabb box_;
  const MlpPlacement placement_;
  MlpParameters parameters_;
  OccupancyUpdater occupancy_;
  std::vector<std::unique_ptr<MlpFieldEvaluator>> probes_;  // one a thread
  uint32_t n_updates_ = 0;
};

void MlpAutogradStep::UpdateOccupancy(uint32_t step) {
  RECORD_USER_SCOPE("occupancy grid");
  while (probes_.size() < static_cast<size_t>(pool_->n_threads())) {
    const std::optional<MlpNetwork> warp = WarpNetwork();
    probes_.push_back(std::make_unique<MlpFieldEvaluator>(
        MlpFieldNetworks{FieldNetwork(), warp.has_value() ? &*warp : nullptr},
        OccupancyUpdater::kProbeBatch));
  }
  occupancy_.Update(
      [&](int n, const Vec3* unit, float* sigmas, int thread) {
        std::vector<Vec3> positions(n);
        std::vector<float> times(n);
        for (int i = 0; i < n; ++i) {
          positions[i] = box_.min + unit[i] * box_.Size();
          times[i] = ProbeTime(config_.seed, unit[i]);
        }
        probes_[thread]->Density(n, positions.data(), times.data(), sigmas);
      },
      step, pool_);
}

StepResult MlpAutogradStep::RunBatch(const RayBatch& batch) {
  if (occupancy_.IsDue(batch.step)) UpdateOccupancy(batch.step);
  const std::optional<MlpNetwork> warp = WarpNetwork();
  const autograd::MlpFieldTensors field(FieldNetwork(), warp.has_value() ? &*warp : nullptr,
                                        device_);
  const bool autocast = Mlp(config_).autocast != 0;
  const PackedSamples samples = MarchBatch(
      batch, config_, {geometry_.step, geometry_.cone},
      [&](const std::vector<Vec3>& positions, const std::vector<float>& times) {
        const autograd::AutocastScope scope(autocast, device_.type());
        return field.Density(AsTensor(positions).to(device_), AsTensor(times).to(device_)).cpu();
      },
      &occupancy_);
  const torch::Tensor ray_offsets = samples.RayOffsets().to(device_);
  const torch::Tensor positions = AsTensor(samples.positions).to(device_);
  const torch::Tensor directions = AsTensor(samples.directions).to(device_);
  const torch::Tensor times = AsTensor(samples.times).to(device_);
  const autograd::RowFunction rows = [&](int64_t begin, int64_t end) {
    const autograd::AutocastScope scope(autocast, device_.type());
    return field.Radiance(positions.slice(0, begin, end), directions.slice(0, begin, end),
                          times.slice(0, begin, end));
  };
  const int64_t n_samples = samples.ray_offsets.back();
  const torch::Tensor radiance = Mlp(config_).checkpointing != 0 && n_samples > 0
                                     ? autograd::Checkpointed(rows, n_samples, kMlpCheckpointRows)
                                     : rows(0, n_samples);
  const torch::Tensor colors = radiance.slice(1, 1);
  const autograd::Composited composited =
      autograd::Composite(ray_offsets, radiance.select(1, 0), AsTensor(samples.deltas).to(device_));
  const torch::Tensor rendered =
      autograd::SumOverRays(ray_offsets, composited.weights.unsqueeze(1) * colors) +
      composited.transmittance.unsqueeze(1) * AsTensor(batch.backgrounds).to(device_);
  const auto [losses, squares] = LossesOf(config_, batch, rendered);
  const torch::Tensor loss = losses.mean(torch::kFloat64);
  StepResult result;
  result.n_rays = batch.n_rays;
  result.n_marched = samples.n_marched();
  result.n_trained = samples.ray_offsets.back();
  result.loss = loss.item<double>();
  result.squared_error = squares.mean(torch::kFloat64).item<double>();
  if (result.n_trained > 0) {
    RECORD_USER_SCOPE("backward");
    (loss * config_.loss_scale).backward();
  }
  // LibTorch's gradients go to the optimizer of the fused step.
  for (int i = 0; i < parameters_.n_networks(); ++i)
    field.networks()[i].CopyGradients(parameters_.gradients(0, i));
  if (!parameters_.Update(batch.learning_rate, static_cast<int>(++n_updates_), pool_))
    result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace

std::unique_ptr<RayStep> NewMlpAutogradStep(const TrainConfig& config,
                                            const SceneGeometry& geometry, ThreadPool* pool,
                                            std::span<const View> views,
                                            std::optional<int> cuda_device) {
  return std::make_unique<MlpAutogradStep>(config, geometry, pool, views, DeviceOf(cuda_device));
}

}  // namespace nerf
