#include <algorithm>
#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "engine/field/parameters/update_count.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/hierarchical.h"
#include "engine/methods/mlp/pair_samples.h"
#include "engine/methods/mlp/pair_step.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"

namespace nerf {
namespace {

constexpr int kRaysPerChunk = 4;
struct ChunkSums {
  double loss = 0, squared_error = 0;
  int64_t n_samples = 0;
};

// The samples of a few rays in one network, forward and backward.
struct StepSamples : PairSamples {
  explicit StepSamples(const MlpNetwork& network) : evaluator(network, /*with_backward=*/true) {}

  void Forward(const RayBatch& batch, const std::vector<int>& indices) {
    Vec3 directions[kRaysPerChunk];
    for (int r = 0; r < n_rays; ++r) directions[r] = batch.rays[indices[r]].direction;
    evaluator.Reserve(size(), 0);
    evaluator.Begin(n_rays, directions);
    evaluator.Density(0, size(), positions.data(), sigmas.data());
    evaluator.Color(size(), ray_of.data(), colors.data());
    for (int r = 0; r < n_rays; ++r) Composite(r);
  }
  void Backward(float* gradients) {
    evaluator.Backward(size(), ray_of.data(), grad_sigmas.data(), grad_colors.data(), gradients);
  }

  MlpEvaluator evaluator;
};

// Coarse and fine network as in the paper: both losses are added, and no gradient goes through the
// places of the fine samples.
class MlpPairStep final : public MlpPairRays {
 public:
  MlpPairStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
              ThreadPool* pool)
      : MlpPairRays(config, geometry, views, pool),
        config_(config),
        geometry_(geometry),
        pool_(pool),
        placement_(
            MlpPlacementOf(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1))))),
        parameters_(config) {
    for (int thread = 0; thread < pool->n_threads(); ++thread) {
      coarse_.push_back(std::make_unique<StepSamples>(parameters_.Network(0, placement_)));
      fine_.push_back(std::make_unique<StepSamples>(parameters_.Network(1, placement_)));
    }
  }

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override {
    parameters_.Save(file);
    SaveUpdateCount(n_updates_, file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
    NERF_RETURN_IF_ERROR(parameters_.Load(file));
    n_updates_ = n_updates;
    ray_count().Restore(rays);
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override { parameters_.SaveModel(file); }
  absl::Status Initialize(const TensorFile& file) override {
    n_updates_ = 0;
    return parameters_.Initialize(file);
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    return NewMlpPairModel(config_, geometry_, parameters_.Evaluation());
  }

 private:
  void RunChunk(const RayBatch& batch, int begin, int end, int lane, int thread, ChunkSums* sums);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  const MlpPlacement placement_;
  MlpParameters parameters_;
  std::vector<std::unique_ptr<StepSamples>> coarse_, fine_;  // one a thread
  uint32_t n_updates_ = 0;
};

void MlpPairStep::RunChunk(const RayBatch& batch, int begin, int end, int lane, int thread,
                           ChunkSums* sums) {
  const std::vector<int> indices = RaysWithSamples(batch, begin, end);
  const auto n_rays = static_cast<int>(indices.size());
  if (n_rays == 0) return;
  StepSamples &coarse = *coarse_[thread], &fine = *fine_[thread];
  coarse.Resize(n_rays, CoarseSamples(config_));
  fine.Resize(n_rays, FineSamples(config_));
  for (int r = 0; r < n_rays; ++r) coarse.PlaceCoarse(config_, batch, r, indices[r]);
  coarse.Forward(batch, indices);
  for (int r = 0; r < n_rays; ++r) fine.PlaceFine(config_, batch, r, indices[r], coarse);
  fine.Forward(batch, indices);
  for (int r = 0; r < n_rays; ++r) {
    coarse.LossAndGradients(config_, batch, r, indices[r], &sums->loss);
    sums->squared_error += fine.LossAndGradients(config_, batch, r, indices[r], &sums->loss);
  }
  coarse.Backward(parameters_.gradients(lane, 0));
  fine.Backward(parameters_.gradients(lane, 1));
  sums->n_samples += coarse.size() + fine.size();
}

StepResult MlpPairStep::RunRays(const RayBatch& batch) {
  std::vector<ChunkSums> sums(kMlpGradientLanes);
  const int n_chunks = (batch.n_rays + kRaysPerChunk - 1) / kRaysPerChunk;
  pool_->ParallelFor(kMlpGradientLanes, [&](int64_t lane, int thread) {
    for (int chunk = static_cast<int>(lane); chunk < n_chunks; chunk += kMlpGradientLanes) {
      const int begin = chunk * kRaysPerChunk;
      RunChunk(batch, begin, std::min(begin + kRaysPerChunk, batch.n_rays), static_cast<int>(lane),
               thread, &sums[lane]);
    }
  });
  StepResult result;
  result.n_rays = batch.n_rays;
  for (const ChunkSums& lane : sums) {
    result.loss += lane.loss / batch.n_rays;
    result.squared_error += lane.squared_error / batch.n_rays;
    result.n_marched += lane.n_samples;
    result.n_trained += lane.n_samples;
  }
  if (!parameters_.Update(batch.learning_rate, static_cast<int>(++n_updates_), pool_))
    result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace

std::unique_ptr<RayStep> NewMlpPairStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        std::span<const View> views, ThreadPool* pool) {
  return std::make_unique<MlpPairStep>(config, geometry, views, pool);
}

}  // namespace nerf
