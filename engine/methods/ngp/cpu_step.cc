#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/gradient_lanes.h"
#include "engine/train/ray_step.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kChunkSamples =
    512;  // trained samples that a chunk should have, so that its activations fit L2

// The fused step of the ngp method: chunks of rays through march, encode, density, compaction,
// color, composite, loss and backward on all threads, then scatter and Adam level by level
// (docs/engine.md).
class NgpCpuStep : public RayStep {
 public:
  NgpCpuStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
             ThreadPool* pool)
      : RayStep(config, geometry, views, pool),
        config_(config),
        pool_(pool),
        state_(config, geometry),
        chunks_(pool->n_threads()) {
    for (int thread = 0; thread < pool->n_threads(); ++thread)
      level_gradients_.emplace_back(state_.parameters.shape());
  }

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override {
    state_.Save(file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_RETURN_IF_ERROR(state_.Load(file));
    ray_count().Restore(rays);
    grid_changed_ = true;
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override { state_.SaveModel(file); }
  absl::Status Initialize(const TensorFile& file) override {
    grid_changed_ = true;
    return state_.Initialize(file);
  }
  std::unique_ptr<TrainedModel> Snapshot() const override { return state_.Snapshot(); }
  double OccupiedFraction() const override { return state_.occupancy.grid().OccupiedFraction(); }
  void ReopenGrid() override {
    grid_changed_ = true;
    state_.occupancy.Reopen();
  }

 private:
  void RunChunks(const RayBatch& batch);
  void UpdateParameters(const RayBatch& batch);
  NgpNetwork Network(const RayBatch& batch) const;

  const TrainConfig config_;
  ThreadPool* const pool_;
  NgpState state_;
  std::vector<uint8_t> empty_distances_;         // of the grid's blocks
  bool grid_changed_ = true;                     // since they were found
  std::vector<RaysInFlight> in_flight_;          // as many as the largest step had groups
  std::vector<NgpChunk> chunks_;                 // one a thread
  std::vector<LevelGradients> level_gradients_;  // one a thread
  LaneOutput lanes_[kGradientLanes];
};

StepResult NgpCpuStep::RunRays(const RayBatch& batch) {
  if (state_.occupancy.IsDue(batch.step)) {
    state_.occupancy.Update(ProbedDensity(Network(batch)), batch.step, pool_);
    grid_changed_ = true;
  }
  if (std::exchange(grid_changed_, false))
    empty_distances_ = EmptyDistances(state_.occupancy.grid());
  RunChunks(batch);
  StepResult result;
  result.n_rays = batch.n_rays;
  for (const LaneOutput& lane : lanes_) {
    result.loss += lane.loss / batch.n_rays;
    result.squared_error += lane.squared_error / batch.n_rays;
    result.n_marched += lane.n_marched;
    result.n_trained += lane.n_trained;
  }
  UpdateParameters(batch);
  if (!state_.parameters.WeightsAreFinite()) result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

void NgpCpuStep::RunChunks(const RayBatch& batch) {
  ChunkInput input{.config = &config_,
                   .network = Network(batch),
                   .transposed_weights = state_.parameters.transposed_weights(),
                   .transposed_pairs = state_.parameters.transposed_pairs(),
                   .grid = MarchGridOf(state_.occupancy.grid(), empty_distances_),
                   .steps = state_.steps().Scaled(batch.step_scale),
                   .scene_steps = state_.steps(),
                   .batch = &batch};
  // Long rays make small chunks. A function of the batch alone, so the same for any number of
  // threads.
  const double chunk_rays =
      static_cast<double>(kChunkSamples) * batch.n_rays / batch.target_samples;
  const int rays_per_chunk = std::clamp(static_cast<int>(chunk_rays), 4, 64);
  const int n_chunks = (batch.n_rays + rays_per_chunk - 1) / rays_per_chunk;
  // A power of two, so that looks come out even in kMaxSamplesPerRay.
  const auto rows_a_ray =
      static_cast<uint32_t>((kMinRoundRows + rays_per_chunk - 1) / rays_per_chunk);
  input.round_samples = std::max(kMinRoundSamples, static_cast<int>(std::bit_ceil(rows_a_ray)));
  const int chunks_in_flight = std::max(1, kRaysInFlight / rays_per_chunk);
  const int rays_in_flight = chunks_in_flight * rays_per_chunk;
  const size_t n_groups = (n_chunks + chunks_in_flight - 1) / chunks_in_flight;
  if (in_flight_.size() < n_groups) in_flight_.resize(n_groups);
  pool_->ParallelFor(static_cast<int64_t>(n_groups), [&](int64_t i, int) {
    const int begin = static_cast<int>(i) * rays_in_flight;
    in_flight_[i].Start(input, begin, std::min(begin + rays_in_flight, batch.n_rays));
  });
  pool_->ParallelFor(kGradientLanes, [&](int64_t lane, int thread) {
    LaneOutput& output = lanes_[lane];
    output.Clear();
    output.weight_gradients = state_.parameters.weight_gradients(static_cast<int>(lane));
    const IndexRange chunks = PartOf(n_chunks, static_cast<int>(lane), kGradientLanes);
    for (int chunk = chunks.begin; chunk < chunks.end; ++chunk) {
      const int begin = chunk * rays_per_chunk;
      chunks_[thread].Run(input, in_flight_[chunk / chunks_in_flight], begin,
                          std::min(begin + rays_per_chunk, batch.n_rays), &output);
    }
  });
}

NgpNetwork NgpCpuStep::Network(const RayBatch& batch) const {
  NgpNetwork network = state_.Network();
  network.n_active_levels = ActiveLevels(config_, batch.fraction);
  return network;
}

void NgpCpuStep::UpdateParameters(const RayBatch& batch) {
  const int t = static_cast<int>(++state_.n_updates);
  const kernels::HashGridShape& shape = state_.parameters.shape();
  const int n_levels = ActiveLevels(config_, batch.fraction);
  // Levels from the finest, which miss the caches most; then the small tasks.
  pool_->ParallelFor(n_levels + 2, [&](int64_t task, int thread) {
    if (task == n_levels) {
      for (const LaneOutput& lane : lanes_) state_.occupancy.Observe(lane.cells, lane.sigmas);
      return;
    }
    if (task == n_levels + 1) {
      state_.parameters.UpdateWeights(batch.learning_rate, t);
      return;
    }
    const int level = n_levels - 1 - static_cast<int>(task);
    LevelGradients& gradients = level_gradients_[thread];
    for (const LaneOutput& lane : lanes_) {
      kernels::cpu::HashEncodeBackward(
          {.shape = &shape,
           .level = level,
           .n = static_cast<int>(lane.positions.size()),
           .positions = lane.positions.data(),
           .grad_features =
               lane.grad_encodings.data() + kernels::kHashTile * shape.n_features * level,
           .tile_stride = kernels::kHashTile * kEncodingWidth,
           .grad_table = gradients.values.data(),
           .touched = gradients.touched.data()});
    }
    state_.parameters.UpdateTableLevel(level, batch.learning_rate, t, &gradients);
  });
  if (state_.n_updates % kNgpAverageInterval == 0)
    state_.parameters.UpdateAverages(kNgpAverageInterval, pool_);
}

}  // namespace

std::unique_ptr<RayStep> NewNgpCpuStep(const TrainConfig& config, const SceneGeometry& geometry,
                                       ThreadPool* pool, std::span<const View> views) {
  return std::make_unique<NgpCpuStep>(config, geometry, views, pool);
}

}  // namespace nerf
