#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "common/clock.h"
#include "common/status_macros.h"
#include "engine/base/trace.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/depth_rays.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/learned_views.h"
#include "engine/methods/ngp/rank_exchange.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/ray_step.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kChunkSamples =
    512;  // trained samples that a chunk should have, so that its activations fit L2

// The fused step of the ngp method: chunks of rays through march, encode, density, compaction,
// color, composite, loss and backward on all threads, then scatter and Adam level by level
// (docs/inside/engine.md).
class NgpCpuStep : public RayStep {
 public:
  NgpCpuStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
             const KnownDepths& depths, ThreadPool* pool, Group* group)
      : RayStep(config, geometry, views, pool),
        config_(config),
        pool_(pool),
        state_(config, geometry),
        exchange_(group, state_.parameters.shape(), state_.occupancy.values().size()),
        views_(config, geometry, views),
        chunks_(pool->n_threads()),
        changed_lines_(exchange_.levels().size()) {
    if (Ngp(config).depth_weight > 0) depths_ = depths;
    for (int thread = 0; thread < pool->n_threads(); ++thread)
      level_gradients_.emplace_back(state_.parameters.shape());
  }

  StepResult Run(const PixelBatch& batch) override {
    const StepResult result = RayStep::Run(batch);
    if (!views_.errors.empty())
      views_.errors.Observe(batch, std::span(ray_errors_).first(batch.pixels.size()));
    return result;
  }
  const PictureErrors* Errors() const override {
    return views_.errors.empty() ? nullptr : &views_.errors;
  }
  StepResult RunRays(const RayBatch& batch) override;
  StepResult RunAllRays(const RayBatch& batch);
  IndexRange OwnPixels(int n_pixels, double fraction) const override;
  void MeasureCosts() override;
  RankCosts CostsOf(int n_ranks) const override;
  double BytesOfStep(const StepOutlook& step, int n_ranks) const override;
  void CollectState() override { exchange_.CollectLevels(&state_.parameters); }
  void Save(TensorFile* file) const override {
    state_.Save(file);
    ray_count().Save(file);
    views_.Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_ASSIGN_OR_RETURN(LearnedViews read, views_.Read(file));
    NERF_RETURN_IF_ERROR(state_.Load(file));
    views_ = std::move(read);
    views_.focals.Apply(&cameras());
    ray_count().Restore(rays);
    grid_changed_ = true;
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override {
    state_.SaveModel(file);
    views_.SaveModel(file);
  }
  std::vector<LensScale> FoundLenses() const override { return views_.focals.Scales(); }
  Mat34 FoundPose(int view, const Mat34& stated) const override {
    return views_.poses.Corrected(view, stated);
  }
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
  void KeepEmpty(const EmptyCells& cells) override {
    if (views_.HasRayGradients()) return;
    grid_changed_ = true;
    state_.occupancy.KeepEmpty(cells(state_.occupancy.grid()));
  }

 protected:
  void MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                std::vector<float>* jitters) const override {
    RayStep::MakeRays(batch, rays, jitters);
    views_.CorrectRays(batch, rays);
  }

 private:
  void RunChunks(const RayBatch& batch);
  void UpdateParameters(const RayBatch& batch);
  void AddCosts(const RayBatch& batch, const StepResult& result, SteadyTime begin);
  void UpdateLevel(int index, const RayBatch& batch, LevelGradients* gradients);
  NgpNetwork Network(const RayBatch& batch) const;

  const TrainConfig config_;
  ThreadPool* const pool_;
  NgpState state_;
  NgpRankExchange exchange_;
  LearnedViews views_;
  // Of a step's rays.
  std::vector<RayGradient> grad_rays_;
  std::vector<Vec3> grad_log_gains_;
  std::vector<int32_t> gain_views_;  // whose they are, also of other ranks' rays
  std::vector<float> grad_view_terms_;
  std::vector<float> ray_errors_;                // of a step's rays
  KnownDepths depths_;                           // none where depth is not learned
  RayBatch with_depth_;                          // kept for its memory
  std::vector<uint8_t> empty_distances_;         // of the grid's blocks
  bool grid_changed_ = true;                     // since they were found
  std::vector<RaysInFlight> in_flight_;          // as many as the largest step had groups
  std::vector<NgpChunk> chunks_;                 // one a thread
  std::vector<LevelGradients> level_gradients_;  // one a thread
  LaneOutput lanes_[kGradientLanes];
  std::vector<std::vector<uint32_t>> changed_lines_;  // of exchange_.levels(), for other ranks
  const RealClock clock_;                             // for costs_ alone
  std::unique_ptr<NgpLineCounts> line_counts_;        // null: costs are not measured
  RankCosts costs_;                                   // but for its bytes
  std::vector<NgpRankExchange::Counts> exchanges_;    // of the steps in costs_
};

// How the rays of a batch are divided. Long rays make small chunks. A pixel's rays stay in one.
// A function of the batch alone, so the same for any number of threads and ranks.
struct ChunkDivision {
  ChunkDivision(int n_rays, int rays_per_pixel, int target_samples)
      : n_rays(n_rays),
        rays_per_chunk(std::clamp(static_cast<int>(static_cast<double>(kChunkSamples) * n_rays /
                                                   target_samples),
                                  4, 64) /
                       rays_per_pixel * rays_per_pixel),
        n_chunks((n_rays + rays_per_chunk - 1) / rays_per_chunk) {}

  IndexRange ChunksOf(int lane) const { return PartOf(n_chunks, lane, kGradientLanes); }
  IndexRange ChunksOf(IndexRange lanes) const {
    return {PartOf(n_chunks, lanes.begin, kGradientLanes).begin,
            PartOf(n_chunks, lanes.end, kGradientLanes).begin};
  }
  IndexRange RaysOf(IndexRange lanes) const {
    const IndexRange chunks = ChunksOf(lanes);
    return {std::min(chunks.begin * rays_per_chunk, n_rays),
            std::min(chunks.end * rays_per_chunk, n_rays)};
  }

  const int n_rays;
  const int rays_per_chunk;
  const int n_chunks;
};

// The lines that are marked, 8 flags at a time: most of a coarse level's are not.
void ListTouched(const Buffer<uint8_t>& touched, std::vector<uint32_t>* lines) {
  lines->clear();
  for (uint32_t line = 0; line < touched.size(); line += 8) {
    uint64_t flags = 0;
    std::memcpy(&flags, touched.data() + line, sizeof(flags));
    if (flags == 0) continue;
    for (uint32_t i = line; i < line + 8; ++i) {
      if (touched[i] != 0) lines->push_back(i);
    }
  }
}

StepResult NgpCpuStep::RunRays(const RayBatch& batch) {
  if (depths_.empty()) return RunAllRays(batch);
  with_depth_ = batch;
  AppendDepthRays(depths_, cameras(), views_.poses, state_.geometry.near, config_.seed,
                  &with_depth_);
  StepResult result = RunAllRays(with_depth_);
  // Whoever chooses the number of rays counts those of pixels.
  result.n_rays = batch.n_rays;
  return result;
}

StepResult NgpCpuStep::RunAllRays(const RayBatch& batch) {
  const SteadyTime begin = clock_.Now();
  if (state_.occupancy.IsDue(batch.step)) {
    const TraceSpan span("occupancy grid");
    state_.occupancy.Update(ProbedDensity(Network(batch)), batch.step, pool_, exchange_.group());
    grid_changed_ = true;
  }
  if (std::exchange(grid_changed_, false))
    empty_distances_ = EmptyDistances(state_.occupancy.grid());
  RunChunks(batch);
  exchange_.ExchangeLanes(ActiveLevels(config_, batch.fraction), lanes_, &state_.parameters);
  if (!views_.exposures.empty()) {
    const ChunkDivision division(batch.n_rays, batch.rays_per_pixel, batch.target_samples);
    gain_views_ = batch.views;
    exchange_.ExchangeRays(gain_views_, grad_log_gains_, views_.exposures.n_views(),
                           [&](IndexRange lanes) { return division.RaysOf(lanes); });
  }
  StepResult result;
  result.n_rays = batch.n_rays;
  for (const LaneOutput& lane : lanes_) {
    result.loss += lane.loss / batch.n_rays;
    result.squared_error += lane.squared_error / batch.n_rays;
    result.n_marched += lane.n_marched;
    result.n_trained += lane.n_trained;
  }
  UpdateParameters(batch);
  if (line_counts_ != nullptr) AddCosts(batch, result, begin);
  if (!state_.parameters.WeightsAreFinite() || !views_.appearances.IsFinite())
    result.loss = std::numeric_limits<double>::quiet_NaN();
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
  if (!views_.exposures.empty()) {
    NERF_CHECK(batch.views.size() == static_cast<size_t>(batch.n_rays));
    grad_log_gains_.resize(batch.n_rays);
    input.view_gains = views_.exposures.gains();
    input.grad_log_gains = grad_log_gains_.data();
  }
  if (!views_.appearances.empty()) {
    NERF_CHECK(batch.views.size() == static_cast<size_t>(batch.n_rays));
    grad_view_terms_.assign(size_t{kHiddenWidth} * batch.n_rays, 0.0f);
    input.view_terms = views_.appearances.terms();
    input.grad_view_terms = grad_view_terms_.data();
  }
  if (views_.HasRayGradients()) {
    NERF_CHECK(batch.views.size() == static_cast<size_t>(batch.n_rays));
    grad_rays_.assign(batch.n_rays, RayGradient());
    input.grad_rays = grad_rays_.data();
  }
  if (!views_.errors.empty()) {
    ray_errors_.resize(batch.n_rays);
    input.ray_errors = ray_errors_.data();
  }
  const ChunkDivision division(batch.n_rays, batch.rays_per_pixel, batch.target_samples);
  const int rays_per_chunk = division.rays_per_chunk;
  // A power of two, so that looks come out even in kMaxSamplesPerRay.
  const auto rows_a_ray =
      static_cast<uint32_t>((kMinRoundRows + rays_per_chunk - 1) / rays_per_chunk);
  input.round_samples = std::max(kMinRoundSamples, static_cast<int>(std::bit_ceil(rows_a_ray)));
  const int chunks_in_flight = std::max(1, kRaysInFlight / rays_per_chunk);
  const int rays_in_flight = chunks_in_flight * rays_per_chunk;
  const IndexRange own = exchange_.lanes(), own_chunks = division.ChunksOf(own);
  const IndexRange own_rays = division.RaysOf(own);
  const size_t n_groups =
      (own_chunks.end - own_chunks.begin + chunks_in_flight - 1) / chunks_in_flight;
  if (in_flight_.size() < n_groups) in_flight_.resize(n_groups);
  {
    const TraceSpan span("march");
    pool_->ParallelFor(static_cast<int64_t>(n_groups), [&](int64_t i, int) {
      const int begin = own_rays.begin + static_cast<int>(i) * rays_in_flight;
      in_flight_[i].Start(input, begin, std::min(begin + rays_in_flight, own_rays.end));
    });
  }
  const TraceSpan span("chunks");
  pool_->ParallelFor(own.end - own.begin, [&](int64_t task, int thread) {
    const int lane = own.begin + static_cast<int>(task);
    LaneOutput& output = lanes_[lane];
    output.Clear();
    output.weight_gradients = state_.parameters.weight_gradients(lane);
    const IndexRange chunks = division.ChunksOf(lane);
    for (int chunk = chunks.begin; chunk < chunks.end; ++chunk) {
      const int begin = chunk * rays_per_chunk;
      chunks_[thread].Run(input, in_flight_[(chunk - own_chunks.begin) / chunks_in_flight], begin,
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
  const TraceSpan span("parameters");
  const int t = static_cast<int>(++state_.n_updates);
  if (views_.HasRayGradients())
    views_.UpdateFromRays(config_, state_.parameters, batch, t, grad_rays_, &cameras());
  if (!views_.exposures.empty()) {
    const float rate = batch.learning_rate * ExposureRate(config_);
    views_.exposures.Update(state_.parameters.TableAdam(rate, t), gain_views_, grad_log_gains_);
  }
  if (!views_.appearances.empty()) {
    const float rate = batch.learning_rate * Ngp(config_).appearance_rate;
    views_.appearances.Update(state_.parameters.TableAdam(rate, t),
                              state_.parameters.WeightsAdam(batch.learning_rate, t), batch.views,
                              grad_view_terms_, pool_);
  }
  const int n_active = ActiveLevels(config_, batch.fraction);
  const std::vector<int>& levels = exchange_.levels();
  const Frozen frozen = Ngp(config_).frozen;
  const auto n_levels =
      frozen == Frozen::kTable
          ? 0
          : std::lower_bound(levels.begin(), levels.end(), n_active) - levels.begin();
  // Levels from the finest, which miss the caches most; then the small tasks.
  pool_->ParallelFor(n_levels + 2, [&](int64_t task, int thread) {
    if (task == n_levels) {
      for (const LaneOutput& lane : lanes_) state_.occupancy.Observe(lane.cells, lane.sigmas);
      return;
    }
    if (task == n_levels + 1 && frozen == Frozen::kMlp) {
      state_.parameters.DropWeightGradients();
      return;
    }
    if (task == n_levels + 1) {
      if (exchange_.alone()) {
        SumLanes(exchange_.lanes(), kGradientLanes, kNgpWeights,
                 state_.parameters.weight_gradients(0));
      }
      state_.parameters.UpdateWeights(batch.learning_rate, t);
      return;
    }
    UpdateLevel(static_cast<int>(n_levels - 1 - task), batch, &level_gradients_[thread]);
  });
  exchange_.ExchangeLines(n_active, changed_lines_, &state_.parameters, line_counts_.get());
  if (state_.n_updates % kNgpAverageInterval != 0) return;
  state_.parameters.UpdateAverages(kNgpAverageInterval, levels, pool_);
  views_.appearances.UpdateAverages(AverageDecay(config_, kNgpAverageInterval));
}

// Scatter and Adam of exchange_.levels()[index].
void NgpCpuStep::UpdateLevel(int index, const RayBatch& batch, LevelGradients* gradients) {
  const kernels::HashGridShape& shape = state_.parameters.shape();
  const int level = exchange_.levels()[index];
  for (const LaneOutput& lane : lanes_) lane.Scatter(shape, level, gradients);
  if (!exchange_.alone() || line_counts_ != nullptr)
    ListTouched(gradients->touched, &changed_lines_[index]);
  state_.parameters.UpdateTableLevel(level, batch.learning_rate, static_cast<int>(state_.n_updates),
                                     gradients);
}

void NgpCpuStep::MeasureCosts() {
  const kernels::HashGridShape& shape = state_.parameters.shape();
  line_counts_ =
      std::make_unique<NgpLineCounts>(shape.n_levels, shape.level_size() / kernels::kLineFloats);
}

void NgpCpuStep::AddCosts(const RayBatch& batch, const StepResult& result, SteadyTime begin) {
  ++costs_.n_steps;
  costs_.n_trained += result.n_trained;
  costs_.seconds += absl::ToDoubleSeconds(clock_.Now() - begin);
  line_counts_->EndStep(batch.step, result.n_trained, result.n_marched);
  NgpRankExchange::Counts counts{static_cast<double>(result.n_trained),
                                 static_cast<double>(result.n_marched),
                                 ActiveLevels(config_, batch.fraction)};
  std::copy(line_counts_->last().begin(), line_counts_->last().end(), counts.n_lines.begin());
  exchanges_.push_back(counts);
}

RankCosts NgpCpuStep::CostsOf(int n_ranks) const {
  RankCosts costs = costs_;
  for (const NgpRankExchange::Counts& counts : exchanges_) {
    costs.bytes_received += NgpRankExchange::BytesReceived(
        counts, state_.parameters.shape(), state_.parameters.ReadLineBytes(), n_ranks);
  }
  return costs;
}

double NgpCpuStep::BytesOfStep(const StepOutlook& step, int n_ranks) const {
  if (line_counts_ == nullptr || !line_counts_->HasCounts()) return 0;
  NgpRankExchange::Counts counts{step.n_trained, step.n_trained * line_counts_->MarchedPerTrained(),
                                 ActiveLevels(config_, step.fraction)};
  for (int level = 0; level < counts.n_active; ++level)
    counts.n_lines[level] = line_counts_->LinesOf(level, step.n_trained, step.step);
  return NgpRankExchange::BytesReceived(counts, state_.parameters.shape(),
                                        state_.parameters.ReadLineBytes(), n_ranks);
}

IndexRange NgpCpuStep::OwnPixels(int n_pixels, double fraction) const {
  const int rays_per_pixel = TrainedRaysPerPixel(config_, fraction);
  const int n_rays = rays_per_pixel * n_pixels;
  const ChunkDivision division(n_rays, rays_per_pixel, TargetSamples(config_, fraction));
  const IndexRange rays = division.RaysOf(exchange_.lanes());
  return {rays.begin / rays_per_pixel, rays.end / rays_per_pixel};
}

}  // namespace

std::unique_ptr<RayStep> NewNgpCpuStep(const TrainConfig& config, const SceneGeometry& geometry,
                                       ThreadPool* pool, std::span<const View> views, Group* group,
                                       const KnownDepths& depths) {
  return std::make_unique<NgpCpuStep>(config, geometry, views, depths, pool, group);
}

}  // namespace nerf
