#include "engine/methods/dynamic/dynamic_step.h"

#include <algorithm>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/probe_time.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/methods/dynamic/evaluator.h"
#include "engine/methods/dynamic/model.h"
#include "engine/methods/dynamic/time_range.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/state.h"
#include "engine/train/field_step.h"
#include "engine/train/occupancy_file.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kAverageInterval = 16;  // steps between updates of the moving average

// The parameters with their gradients.
struct DynamicState {
  DynamicState(const TrainConfig& config, const SceneGeometry& geometry)
      : network(NgpNetworkOf(config, geometry)),
        ngp(config, network.shape),
        warp(WarpBlocks(), kGradientLanes),
        warp_transposed(kWarpWeights),
        lanes(kGradientLanes) {
    ngp.InitializeRandomly();
    InitializeWarp(config.seed, &warp);
    Derive();
  }
  // What follows from the weights, after they have changed.
  void Derive() { TransposeWarp(warp.values(), warp_transposed.data()); }
  DynamicNetwork Network() const {
    NgpNetwork with_parameters = WithParameters(network, ngp);
    with_parameters.n_active_levels = n_active_levels;
    return {{with_parameters, ngp.transposed_weights(), ngp.transposed_pairs()},
            {warp.values(), warp_transposed.data()}};
  }

  const NgpNetwork network;                       // without parameters
  int n_active_levels = kernels::kMaxHashLevels;  // of the encoding, in this step
  NgpParameters ngp;
  DenseParameters warp;
  Buffer<float> warp_transposed;
  std::vector<LaneOutput> lanes;
};

class DynamicChunkField final : public ChunkField {
 public:
  explicit DynamicChunkField(DynamicState* state) : state_(*state) {}

  void Begin(int n_rays, const Ray* rays, const float* times) override {
    n_rays_ = n_rays;
    features_.resize(size_t{kTimeWidth} * n_rays);
    harmonics_.resize(size_t{kDirectionWidth} * n_rays);
    for (int r = 0; r < n_rays; ++r) {
      TimeFeatures(times != nullptr ? times[r] : 0, features_.data() + size_t{kTimeWidth} * r);
      kernels::SphericalHarmonics4(rays[r].direction,
                                   harmonics_.data() + size_t{kDirectionWidth} * r);
    }
  }
  void Reserve(int n_rows, int n_kept) override {
    evaluator_.Reserve(n_rows, n_kept);
    unit_.resize(n_rows);
  }
  void Density(int begin, int n, const Vec3* positions, const int* ray_of, float* sigmas) override {
    ToUnitCube(state_.network.box, n, positions, unit_.data());
    evaluator_.Density(state_.Network(), begin, n, unit_.data(), ray_of, features_.data(), sigmas);
  }
  void MoveRow(int from, int to) override { evaluator_.MoveRow(from, to); }
  void Color(int n, const int* ray_of, Vec3* colors) override {
    evaluator_.Color(state_.Network(), n, nullptr, ray_of, n_rays_, harmonics_.data(), colors);
  }
  void Backward(int n, const int* ray_of, const float* grad_sigmas, const Vec3* grad_colors,
                int lane) override {
    evaluator_.Backward(state_.Network(), n, ray_of, features_.data(), harmonics_.data(),
                        grad_sigmas, grad_colors, &state_.lanes[lane], state_.warp.gradients(lane));
  }

 private:
  DynamicState& state_;
  DynamicEvaluator evaluator_;
  int n_rays_ = 0;
  std::vector<float> features_, harmonics_;  // of the chunk's rays
  std::vector<Vec3> unit_;
};

class DynamicStep final : public FieldStep {
 public:
  DynamicStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
              ThreadPool* pool)
      : FieldStep(config, geometry, views, pool, {.n_lanes = kGradientLanes, .chunk_samples = 512}),
        state_(config, geometry),
        times_(TimesOf(views)),
        probes_(pool->n_threads()) {
    for (int lane = 0; lane < kGradientLanes; ++lane)
      state_.lanes[lane].weight_gradients = state_.ngp.weight_gradients(lane);
    for (int thread = 0; thread < pool->n_threads(); ++thread)
      level_gradients_.emplace_back(state_.ngp.shape());
  }

  StepResult RunRays(const RayBatch& batch) override {
    for (LaneOutput& lane : state_.lanes) lane.Clear();
    state_.n_active_levels = ActiveLevels(config(), batch.fraction);
    return FieldStep::RunRays(batch);
  }
  void Save(TensorFile* file) const override {
    state_.ngp.Save(file);
    state_.warp.Save(file);
    SaveTimeRange(times_, file);
    SaveCommon(file);
  }
  absl::Status Load(const TensorFile& file) override {
    DenseParameters warp(WarpBlocks(), 1);  // checked first: a failure changes nothing
    NERF_RETURN_IF_ERROR(warp.Load(file));
    DynamicState loaded(config(), geometry());
    NERF_RETURN_IF_ERROR(loaded.ngp.Load(file));
    NERF_RETURN_IF_ERROR(LoadCommon(file));
    NERF_RETURN_IF_ERROR(state_.warp.Load(file));
    state_.Derive();
    return state_.ngp.Load(file);
  }
  void SaveModel(TensorFile* file) const override {
    state_.ngp.SaveModel(file);
    state_.warp.SaveModel(file);
    SaveTimeRange(times_, file);
    StoreOccupancyBits(occupancy().grid(), file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_RETURN_IF_ERROR(state_.warp.Initialize(file));
    state_.Derive();
    NERF_RETURN_IF_ERROR(state_.ngp.Initialize(file));
    InitializeCommon(file);
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    return NewDynamicModel(config(), geometry(),
                           {state_.ngp.EvaluationTable(), state_.ngp.EvaluationWeights()},
                           state_.warp.Evaluation(), times_, occupancy().grid());
  }

 protected:
  std::unique_ptr<ChunkField> NewChunkField() override {
    return std::make_unique<DynamicChunkField>(&state_);
  }
  // The grid is that of all times: a probe has a time of its own, and training sees all of them.
  OccupancyUpdater::Density ProbedDensity() override {
    return [this](int n, const Vec3* unit, float* sigmas, int thread) {
      Probe& probe = probes_[thread];
      probe.evaluator.Reserve(OccupancyUpdater::kProbeBatch, 0);
      probe.features.resize(size_t{kTimeWidth} * n);
      probe.index.resize(n);
      for (int i = 0; i < n; ++i) {
        probe.index[i] = i;
        TimeFeatures(
            times_.first + (times_.last - times_.first) * ProbeTime(config().seed, unit[i]),
            probe.features.data() + size_t{kTimeWidth} * i);
      }
      probe.evaluator.Density(state_.Network(), 0, n, unit, probe.index.data(),
                              probe.features.data(), sigmas);
    };
  }
  bool UpdateParameters(const RayBatch& batch, int t) override;

 private:
  struct Probe {
    DynamicEvaluator evaluator;
    std::vector<float> features;
    std::vector<int> index;
  };

  DynamicState state_;
  const TimeRange times_;
  std::vector<Probe> probes_;                    // one a thread
  std::vector<LevelGradients> level_gradients_;  // one a thread
};

bool DynamicStep::UpdateParameters(const RayBatch& batch, int t) {
  const kernels::HashGridShape& shape = state_.ngp.shape();
  // Levels from the finest, which miss the caches most; then the weights.
  const int n_levels = std::min(shape.n_levels, state_.n_active_levels);
  pool()->ParallelFor(n_levels + 1, [&](int64_t task, int thread) {
    if (task == n_levels) {
      SumLanes({0, kGradientLanes}, kGradientLanes, kNgpWeights, state_.ngp.weight_gradients(0));
      state_.ngp.UpdateWeights(batch.learning_rate, t);
      return;
    }
    const int level = n_levels - 1 - static_cast<int>(task);
    LevelGradients& gradients = level_gradients_[thread];
    for (const LaneOutput& lane : state_.lanes) lane.Scatter(shape, level, &gradients);
    state_.ngp.UpdateTableLevel(level, batch.learning_rate, t, &gradients);
  });
  state_.warp.Update(state_.ngp.WeightsAdam(Ngp(config()).warp_rate * batch.learning_rate, t),
                     pool());
  state_.Derive();
  if (t % kAverageInterval == 0) {
    state_.ngp.UpdateAverages(kAverageInterval, pool());
    state_.warp.UpdateAverages(AverageDecay(config(), kAverageInterval));
  }
  return state_.ngp.WeightsAreFinite() && state_.warp.IsFinite();
}

}  // namespace

std::unique_ptr<RayStep> NewDynamicStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        std::span<const View> views, ThreadPool* pool) {
  return std::make_unique<DynamicStep>(config, geometry, views, pool);
}

}  // namespace nerf
