#include "engine/autograd/mlp_autograd_step.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/status_macros.h"
#include "engine/autograd/autocast_scope.h"
#include "engine/autograd/checkpoint_op.h"
#include "engine/autograd/composite_op.h"
#include "engine/autograd/ray_march.h"
#include "engine/autograd/ray_tensors.h"
#include "engine/autograd/torch_ray_step.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"
#include "engine/train/occupancy_file.h"
#include "engine/train/occupancy_updater.h"
#include "engine/train/update_count.h"

namespace nerf {
namespace {

// As MlpEncode, for points [n, 3].
torch::Tensor Encoded(const torch::Tensor& points, int n_octaves, int width) {
  std::vector<torch::Tensor> parts = {points};
  for (int octave = 0; octave < n_octaves; ++octave) {
    const torch::Tensor angles = points * std::ldexp(1.0, octave);
    parts.push_back(torch::sin(angles));
    parts.push_back(torch::cos(angles));
  }
  const torch::Tensor encoded = torch::cat(parts, 1);
  return torch::constant_pad_nd(encoded, {0, width - encoded.size(1)});
}

// A layer's parameters as leaves that share the parameters' memory.
struct Leaf {
  torch::Tensor weights, biases;
  torch::Tensor operator()(const torch::Tensor& inputs) const {
    return torch::addmm(biases, inputs, weights);
  }
};

class MlpAutogradStep final : public TorchRayStep {
 public:
  MlpAutogradStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
                  std::span<const View> views)
      : TorchRayStep(config, geometry, views, pool),
        config_(config),
        geometry_(geometry),
        pool_(pool),
        box_(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)))),
        placement_(MlpPlacementOf(box_)),
        layout_(MlpNetworks(config)[0]),
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

 private:
  StepResult RunBatch(const RayBatch& batch) override;
  std::vector<Leaf> Leaves() const;
  torch::Tensor Trunk(const std::vector<Leaf>& leaves, const torch::Tensor& positions) const;
  torch::Tensor Density(const std::vector<Leaf>& leaves, const torch::Tensor& trunk) const;
  torch::Tensor Color(const std::vector<Leaf>& leaves, const torch::Tensor& trunk,
                      const torch::Tensor& directions) const;
  bool Update(const RayBatch& batch, const std::vector<Leaf>& leaves);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  const Aabb box_;
  const MlpPlacement placement_;
  const MlpLayout layout_;
  MlpParameters parameters_;
  OccupancyUpdater occupancy_;
  std::vector<std::unique_ptr<MlpEvaluator>> probes_;  // one a thread
  uint32_t n_updates_ = 0;
};

std::vector<Leaf> MlpAutogradStep::Leaves() const {
  const float* const parameters = parameters_.Network(0, placement_).parameters;
  std::vector<Leaf> leaves;
  for (const MlpLayer& layer : layout_.layers) {
    leaves.push_back({AsLeaf(parameters + layer.weights, {layer.n_in, layer.n_out}),
                      AsLeaf(parameters + layer.biases, {layer.n_out})});
  }
  return leaves;
}

torch::Tensor MlpAutogradStep::Trunk(const std::vector<Leaf>& leaves,
                                     const torch::Tensor& positions) const {
  const Vec3 c = placement_.center;
  const torch::Tensor placed = (positions - torch::tensor({c.x, c.y, c.z})) * placement_.scale;
  const torch::Tensor encoded = Encoded(placed, kMlpPositionOctaves, kMlpPositionWidth);
  torch::Tensor hidden = torch::relu(leaves[0](encoded));
  for (int l = 1; l < layout_.depth; ++l) {
    if (l == layout_.skip) hidden = torch::cat({encoded, hidden}, 1);
    hidden = torch::relu(leaves[l](hidden));
  }
  return hidden;
}

torch::Tensor MlpAutogradStep::Density(const std::vector<Leaf>& leaves,
                                       const torch::Tensor& trunk) const {
  const torch::Tensor output = leaves[layout_.depth](trunk).select(1, 0).to(torch::kFloat32);
  return torch::relu(output) * placement_.scale;
}

torch::Tensor MlpAutogradStep::Color(const std::vector<Leaf>& leaves, const torch::Tensor& trunk,
                                     const torch::Tensor& directions) const {
  torch::Tensor feature = leaves[layout_.depth + 1](trunk);
  if (layout_.feature_relu) feature = torch::relu(feature);
  const torch::Tensor encoded = Encoded(directions, kMlpDirectionOctaves, kMlpDirectionWidth);
  const torch::Tensor hidden =
      torch::relu(leaves[layout_.depth + 2](torch::cat({feature, encoded}, 1)));
  return torch::sigmoid(leaves[layout_.depth + 3](hidden).slice(1, 0, 3).to(torch::kFloat32));
}

StepResult MlpAutogradStep::RunBatch(const RayBatch& batch) {
  if (occupancy_.IsDue(batch.step)) {
    while (probes_.size() < static_cast<size_t>(pool_->n_threads())) {
      probes_.push_back(std::make_unique<MlpEvaluator>(parameters_.Network(0, placement_), false));
      probes_.back()->Reserve(OccupancyUpdater::kProbeBatch, 0);
    }
    occupancy_.Update(
        [&](int n, const Vec3* unit, float* sigmas, int thread) {
          std::vector<Vec3> positions(n);
          for (int i = 0; i < n; ++i) positions[i] = box_.min + unit[i] * box_.Size();
          probes_[thread]->Density(0, n, positions.data(), sigmas);
        },
        batch.step, pool_);
  }
  const std::vector<Leaf> leaves = Leaves();
  const PackedSamples samples = MarchBatch(
      batch, config_, {geometry_.step, geometry_.cone},
      [&](const std::vector<Vec3>& positions) {
        const autograd::AutocastScope autocast(Mlp(config_).autocast != 0);
        return Density(leaves, Trunk(leaves, AsTensor(positions)));
      },
      &occupancy_);
  const torch::Tensor ray_offsets = samples.RayOffsets();
  const autograd::RowFunction rows = [&](int64_t begin, int64_t end) {
    const autograd::AutocastScope autocast(Mlp(config_).autocast != 0);
    const torch::Tensor trunk = Trunk(leaves, AsTensor(samples.positions).slice(0, begin, end));
    const torch::Tensor directions = AsTensor(samples.directions).slice(0, begin, end);
    return torch::cat({Density(leaves, trunk).unsqueeze(1), Color(leaves, trunk, directions)}, 1);
  };
  const int64_t n_samples = samples.ray_offsets.back();
  const torch::Tensor field = Mlp(config_).checkpointing != 0 && n_samples > 0
                                  ? autograd::Checkpointed(rows, n_samples, kMlpCheckpointRows)
                                  : rows(0, n_samples);  // [n_samples, 4]: density, color
  const torch::Tensor colors = field.slice(1, 1);
  const autograd::Composited composited =
      autograd::Composite(ray_offsets, field.select(1, 0), AsTensor(samples.deltas));
  const torch::Tensor rendered =
      autograd::SumOverRays(ray_offsets, composited.weights.unsqueeze(1) * colors) +
      composited.transmittance.unsqueeze(1) * AsTensor(batch.backgrounds);
  const torch::Tensor residuals = rendered - AsTensor(batch.targets);
  torch::Tensor losses = LossOf(config_, residuals);
  if (!batch.weights.empty()) losses = losses * AsTensor(batch.weights).unsqueeze(1);
  const torch::Tensor loss = losses.mean(torch::kFloat64);
  StepResult result;
  result.n_rays = batch.n_rays;
  result.n_marched = samples.n_marched();
  result.n_trained = samples.ray_offsets.back();
  result.loss = loss.item<double>();
  result.squared_error = residuals.detach().square().mean(torch::kFloat64).item<double>();
  if (result.n_trained > 0) {
    RECORD_USER_SCOPE("backward");
    (loss * config_.loss_scale).backward();
  }
  if (!Update(batch, leaves)) result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Hands LibTorch's gradients to the optimizer of the fused step.
bool MlpAutogradStep::Update(const RayBatch& batch, const std::vector<Leaf>& leaves) {
  float* const gradients = parameters_.gradients(0, 0);
  const auto take = [&](const torch::Tensor& leaf, size_t offset) {
    if (!leaf.grad().defined()) return;
    const torch::Tensor gradient = leaf.grad().contiguous();
    std::copy_n(gradient.data_ptr<float>(), gradient.numel(), gradients + offset);
  };
  for (size_t i = 0; i < leaves.size(); ++i) {
    take(leaves[i].weights, layout_.layers[i].weights);
    take(leaves[i].biases, layout_.layers[i].biases);
  }
  return parameters_.Update(batch.learning_rate, static_cast<int>(++n_updates_), pool_);
}

}  // namespace

std::unique_ptr<RayStep> NewMlpAutogradStep(const TrainConfig& config,
                                            const SceneGeometry& geometry, ThreadPool* pool,
                                            std::span<const View> views) {
  return std::make_unique<MlpAutogradStep>(config, geometry, pool, views);
}

}  // namespace nerf
