#include "engine/methods/autograd/autograd_step.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/status_macros.h"
#include "engine/field/kernels/distortion.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/methods/autograd/composite_op.h"
#include "engine/methods/autograd/density_activation_op.h"
#include "engine/methods/autograd/gradient_sum.h"
#include "engine/methods/autograd/ngp_field_op.h"
#include "engine/methods/autograd/ray_march.h"
#include "engine/methods/autograd/ray_tensors.h"
#include "engine/methods/autograd/torch_ray_step.h"
#include "engine/methods/ngp/state.h"

namespace nerf {
namespace {

// Rays with their samples composited.
struct RenderedRays {
  torch::Tensor colors;       // [n_rays, 3], on the rays' backgrounds
  torch::Tensor distortions;  // [n_rays]
};

constexpr int64_t kMaxMarched = int64_t{1} << 40;  // of a rank: more is no honest count

// What a rank's rays add to the figures of a step.
struct RankSums {
  double loss = 0;  // means over all ranks' rays
  double squared_error = 0;
  int64_t n_marched = 0;
  int64_t n_trained = 0;

  RankSums& operator+=(const RankSums& other) {
    loss += other.loss;
    squared_error += other.squared_error;
    n_marched += other.n_marched;
    n_trained += other.n_trained;
    return *this;
  }
};

template <typename T>
std::vector<T> SliceOf(const std::vector<T>& values, IndexRange range) {
  if (values.empty()) return {};
  return {values.begin() + range.begin, values.begin() + range.end};
}

RayBatch SliceOf(const RayBatch& batch, IndexRange range) {
  RayBatch slice = batch;
  slice.n_rays = range.end - range.begin;
  slice.rays = SliceOf(batch.rays, range);
  slice.jitters = SliceOf(batch.jitters, range);
  slice.targets = SliceOf(batch.targets, range);
  slice.backgrounds = SliceOf(batch.backgrounds, range);
  slice.weights = SliceOf(batch.weights, range);
  return slice;
}

class AutogradStep final : public TorchRayStep {
 public:
  AutogradStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
               std::span<const View> views, Group* group, const torch::Device& device)
      : TorchRayStep(config, geometry, views, pool),
        config_(config),
        pool_(pool),
        group_(group),
        device_(device),
        state_(WithoutHalfTable(config), geometry) {
    // Otherwise the scatter into the table would add in an arbitrary order, as it does on a device.
    if (device.is_cpu()) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::set_num_threads(pool->n_threads());
  }

  StepResult RunRays(const RayBatch& batch) override {
    const SteadyTime begin = clock_.Now();
    const StepResult result = TorchRayStep::RunRays(batch);
    ++costs_.n_steps;
    costs_.n_trained += result.n_trained;
    costs_.seconds += absl::ToDoubleSeconds(clock_.Now() - begin);
    n_marched_ += result.n_marched;
    return result;
  }
  IndexRange OwnPixels(int n_pixels, double) const override {
    if (group_ == nullptr) return {0, n_pixels};
    return PartOf(n_pixels, group_->rank(), group_->n_ranks());
  }
  RankCosts CostsOf(int n_ranks) const override;
  double BytesOfStep(const StepOutlook& step, int n_ranks) const override;
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
  void KeepEmpty(const EmptyCells& cells) override {
    state_.occupancy.KeepEmpty(cells(state_.occupancy.grid()));
  }

 private:
  StepResult RunBatch(const RayBatch& batch) override;
  RankSums RunRange(const RayBatch& batch, IndexRange range,
                    const autograd::NgpTensors& parameters);
  void ObserveOthers(const PackedSamples& samples);
  double BytesReceived(double n_steps, double n_marched, int n_ranks) const;
  RankSums SumOverRanks(const RankSums& mine) const;
  void SumGradients(autograd::NgpTensors* parameters);
  autograd::NgpTensors Parameters() const;
  torch::Tensor GeometryAt(const autograd::NgpTensors& parameters,
                           const std::vector<Vec3>& positions) const;
  torch::Tensor DensityOf(const torch::Tensor& geometry) const;
  RenderedRays Render(const RayBatch& batch, const autograd::NgpTensors& parameters,
                      const PackedSamples& samples) const;
  void UpdateParameters(const RayBatch& batch, const autograd::NgpTensors& parameters);

  const TrainConfig config_;
  ThreadPool* const pool_;
  Group* const group_;                         // null: this process alone
  const torch::Device device_;                 // of what autograd computes
  std::unique_ptr<GradientSum> gradient_sum_;  // made by the first step of a group
  NgpState state_;
  const RealClock clock_;  // for costs_ alone
  RankCosts costs_;        // but for its bytes
  int64_t n_marched_ = 0;  // of the steps in costs_
};

StepResult AutogradStep::RunBatch(const RayBatch& batch) {
  if (state_.occupancy.IsDue(batch.step))
    state_.occupancy.Update(ProbedDensity(state_.Network()), batch.step, pool_, group_);
  autograd::NgpTensors parameters = Parameters();
  RankSums sums;
  if (group_ == nullptr) {
    sums = RunRange(batch, {0, batch.n_rays}, parameters);
  } else {
    sums = SumOverRanks(RunRange(batch, OwnPixels(batch.n_rays, batch.fraction), parameters));
    if (sums.n_trained > 0) SumGradients(&parameters);
  }
  UpdateParameters(batch, parameters);
  StepResult result;
  result.n_rays = batch.n_rays;
  result.n_marched = sums.n_marched;
  result.n_trained = sums.n_trained;
  result.squared_error = sums.squared_error;
  result.loss =
      state_.parameters.WeightsAreFinite() ? sums.loss : std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Losses and gradients of the rays in `range`, as parts of the means over all rays of the batch.
RankSums AutogradStep::RunRange(const RayBatch& whole, IndexRange range,
                                const autograd::NgpTensors& parameters) {
  const bool all = range == IndexRange{0, whole.n_rays};
  const RayBatch slice = all ? RayBatch() : SliceOf(whole, range);
  const RayBatch& batch = all ? whole : slice;
  const PackedSamples samples = MarchBatch(
      batch, config_, state_.steps(),
      [&](const std::vector<Vec3>& positions, const std::vector<float>& /*times*/) {
        return DensityOf(GeometryAt(parameters, positions)).cpu();
      },
      &state_.occupancy);
  if (group_ != nullptr) ObserveOthers(samples);
  if (batch.n_rays == 0) return {};
  const RenderedRays rendered = Render(batch, parameters, samples);
  const auto [losses, squares] = LossesOf(config_, batch, rendered.colors);
  const double n_rays = whole.n_rays;
  const torch::Tensor loss = losses.sum(torch::kFloat64) / (3 * n_rays) +
                             batch.distortion * rendered.distortions.sum(torch::kFloat64) / n_rays;
  RankSums sums;
  sums.loss = loss.item<double>();
  sums.squared_error = squares.sum(torch::kFloat64).item<double>() / (3 * n_rays);
  sums.n_marched = samples.n_marched();
  sums.n_trained = samples.ray_offsets.back();
  if (sums.n_trained > 0) {
    RECORD_USER_SCOPE("backward");
    (loss * config_.loss_scale).backward();
  }
  return sums;
}

// Sends the other ranks the densities of this rank's samples, and takes theirs into the grid.
void AutogradStep::ObserveOthers(const PackedSamples& samples) {
  std::vector<ByteBlock> cells, sigmas;
  const auto take = [](const ByteBlock& block, auto* values) {
    values->resize(block.bytes().size() / sizeof((*values)[0]));
    if (!values->empty())
      std::memcpy(values->data(), block.bytes().data(), values->size() * sizeof((*values)[0]));
  };
  std::vector<std::vector<uint32_t>> their_cells(group_->n_ranks());
  AllGather(group_, BytesOf(std::span(samples.cells)), &cells);
  for (int rank = 0; rank < group_->n_ranks(); ++rank)
    if (rank != group_->rank()) take(cells[rank], &their_cells[rank]);
  AllGather(group_, BytesOf(std::span(samples.sigmas)), &sigmas);
  for (int rank = 0; rank < group_->n_ranks(); ++rank) {
    if (rank == group_->rank()) continue;
    std::vector<float> theirs;
    take(sigmas[rank], &theirs);
    if (theirs.size() != their_cells[rank].size())
      throw GroupError("another rank sent cells without densities");
    const size_t n_cells = state_.occupancy.values().size();
    if (!std::ranges::all_of(their_cells[rank], [&](uint32_t cell) { return cell < n_cells; }))
      throw GroupError("another rank sent a cell outside the grid");
    state_.occupancy.Observe(their_cells[rank], theirs);
  }
}

// In the order of the ranks, so that all have the same bytes.
RankSums AutogradStep::SumOverRanks(const RankSums& mine) const {
  std::vector<ByteBlock> from;
  AllGather(group_, BytesOf(std::span(&mine, 1)), &from);
  RankSums sums;
  for (int rank = 0; rank < group_->n_ranks(); ++rank) {
    RankSums theirs = mine;
    if (rank != group_->rank()) {
      if (from[rank].bytes().size() != sizeof(theirs))
        throw GroupError("another rank sent sums of another size");
      std::memcpy(&theirs, from[rank].bytes().data(), sizeof(theirs));
      // Counts decide how many rays the next step has.
      if (theirs.n_trained < 0 || theirs.n_trained > theirs.n_marched ||
          theirs.n_marched > kMaxMarched) {
        throw GroupError("another rank sent counts that no rank can have");
      }
    }
    sums += theirs;
  }
  return sums;
}

// A rank's loss is its part of the mean over all rays, so the gradients are added up.
void AutogradStep::SumGradients(autograd::NgpTensors* parameters) {
  if (gradient_sum_ == nullptr) gradient_sum_ = NewGradientSum(group_);
  std::vector<torch::Tensor> leaves = parameters->layers;
  leaves.push_back(parameters->table);
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& leaf : leaves) {
    const bool has_rays = leaf.grad().defined();
    gradients.push_back((has_rays ? leaf.grad() : torch::zeros_like(leaf)).flatten().detach());
  }
  const torch::Tensor sums = torch::cat(gradients).cpu();
  gradient_sum_->AllReduce(sums);
  int64_t begin = 0;
  for (const torch::Tensor& leaf : leaves) {
    leaf.mutable_grad() = sums.narrow(0, begin, leaf.numel()).view_as(leaf).to(device_);
    begin += leaf.numel();
  }
}

RankCosts AutogradStep::CostsOf(int n_ranks) const {
  RankCosts costs = costs_;
  costs.bytes_received =
      BytesReceived(static_cast<double>(costs_.n_steps), static_cast<double>(n_marched_), n_ranks);
  return costs;
}

double AutogradStep::BytesOfStep(const StepOutlook& step, int n_ranks) const {
  if (costs_.n_trained == 0) return 0;
  const double marched_per_trained =
      static_cast<double>(n_marched_) / static_cast<double>(costs_.n_trained);
  return BytesReceived(1, step.n_trained * marched_per_trained, n_ranks);
}

// That each of n_ranks ranks receives.
double AutogradStep::BytesReceived(double n_steps, double n_marched, int n_ranks) const {
  const double others = 1 - 1.0 / n_ranks;
  const NgpParameters& p = state_.parameters;
  const double gradient_bytes =
      sizeof(float) *
      (static_cast<double>(p.shape().n_levels) * p.shape().level_size() + kNgpWeights);
  return n_steps *
             (2 * others * gradient_bytes + (n_ranks - 1) * static_cast<double>(sizeof(RankSums))) +
         n_marched * others * (sizeof(uint32_t) + sizeof(float));
}

// Leaf tensors that on the CPU share the parameters' memory.
autograd::NgpTensors AutogradStep::Parameters() const {
  const NgpParameters& p = state_.parameters;
  autograd::NgpTensors tensors;
  tensors.table =
      AsLeaf(p.table(), {p.shape().n_levels, p.shape().entries(), p.shape().n_features}, device_);
  for (const NgpLayer& layer : kNgpLayers)
    tensors.layers.push_back(
        AsLeaf(p.weights() + layer.offset, {layer.n_in, layer.n_out}, device_));
  return tensors;
}

// Features of points in scene units: [n, kGeometryWidth].
torch::Tensor AutogradStep::GeometryAt(const autograd::NgpTensors& parameters,
                                       const std::vector<Vec3>& positions) const {
  std::vector<Vec3> unit(positions.size());
  ToUnitCube(state_.Network().box, static_cast<int>(positions.size()), positions.data(),
             unit.data());
  // A copy: the graph may outlive `unit`.
  return autograd::NgpGeometry(state_.parameters.shape(), parameters,
                               AsTensor(unit).clone().to(device_));
}

torch::Tensor AutogradStep::DensityOf(const torch::Tensor& geometry) const {
  return autograd::DensityActivation(geometry.select(1, 0), state_.density_shift());
}

RenderedRays AutogradStep::Render(const RayBatch& batch, const autograd::NgpTensors& parameters,
                                  const PackedSamples& samples) const {
  const torch::Tensor ray_offsets = samples.RayOffsets().to(device_);
  const torch::Tensor geometry = GeometryAt(parameters, samples.positions);
  const torch::Tensor colors =
      autograd::NgpColor(parameters, geometry, AsTensor(samples.directions).to(device_));
  const autograd::Composited composited =
      autograd::Composite(ray_offsets, DensityOf(geometry), AsTensor(samples.deltas).to(device_));
  return {.colors = autograd::SumOverRays(ray_offsets, composited.weights.unsqueeze(1) * colors) +
                    composited.transmittance.unsqueeze(1) * AsTensor(batch.backgrounds).to(device_),
          .distortions = autograd::Distortion(ray_offsets, composited.weights,
                                              AsTensor(samples.normalized_ts).to(device_),
                                              batch.step_scale * kernels::kDistortionPerStep)};
}

// Hands autograd's gradients to the optimizer that the fused step uses.
void AutogradStep::UpdateParameters(const RayBatch& batch, const autograd::NgpTensors& parameters) {
  NgpParameters& p = state_.parameters;
  const int t = static_cast<int>(++state_.n_updates);
  for (int i = 0; i < kNgpLayerCount; ++i) {
    if (!parameters.layers[i].grad().defined()) continue;
    const torch::Tensor gradient = parameters.layers[i].grad().cpu().contiguous();
    std::memcpy(p.weight_gradients(0) + kNgpLayers[i].offset, gradient.data_ptr<float>(),
                gradient.nbytes());
  }
  p.UpdateWeights(batch.learning_rate, t);
  if (parameters.table.grad().defined()) {
    const torch::Tensor gradient = parameters.table.grad().cpu().contiguous();
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
                                         ThreadPool* pool, std::span<const View> views,
                                         Group* group, std::optional<int> cuda_device) {
  return std::make_unique<AutogradStep>(config, geometry, pool, views, group,
                                        DeviceOf(cuda_device));
}

}  // namespace nerf
