#include "engine/train/field_step.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/trace.h"
#include "engine/field/parameters/update_count.h"
#include "engine/train/occupancy_file.h"

namespace nerf {
namespace {

// A round should have this many samples, so that layers get full blocks of rows.
constexpr int kMinRoundRows = 128, kMinRoundSamples = 4;

}  // namespace

FieldStep::FieldStep(const TrainConfig& config, const SceneGeometry& geometry,
                     std::span<const View> views, ThreadPool* pool, const FieldStepOptions& options)
    : RayStep(config, geometry, views, pool),
      config_(config),
      geometry_(geometry),
      pool_(pool),
      options_(options),
      occupancy_(config, geometry),
      chunks_(pool->n_threads()),
      sums_(options.n_lanes) {}

FieldStep::~FieldStep() = default;

void FieldStep::ReopenGrid() {
  grid_changed_ = true;
  occupancy_.Reopen();
}

void FieldStep::KeepEmpty(const EmptyCells& cells) {
  grid_changed_ = true;
  occupancy_.KeepEmpty(cells(occupancy_.grid()));
}

StepResult FieldStep::RunRays(const RayBatch& batch) {
  while (fields_.size() < chunks_.size()) fields_.push_back(NewChunkField());
  if (occupancy_.IsDue(batch.step)) {
    const TraceSpan span("occupancy grid");
    occupancy_.Update(ProbedDensity(), batch.step, pool_);
    grid_changed_ = true;
  }
  if (std::exchange(grid_changed_, false)) empty_distances_ = EmptyDistances(occupancy_.grid());
  RunChunks(batch);
  const TraceSpan span("parameters");
  StepResult result;
  result.n_rays = batch.n_rays;
  for (const ChunkSums& sums : sums_) {
    result.loss += sums.loss / batch.n_rays;
    result.squared_error += sums.squared_error / batch.n_rays;
    result.n_marched += sums.n_marched;
    result.n_trained += sums.n_trained;
    occupancy_.Observe(sums.cells, sums.sigmas);
  }
  if (!UpdateParameters(batch, static_cast<int>(++n_updates_)))
    result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

void FieldStep::RunChunks(const RayBatch& batch) {
  const TraceSpan span("chunks");
  const kernels::MarchSteps scene_steps{geometry_.step, geometry_.cone};
  FieldChunkInput input{.config = &config_,
                        .grid = MarchGridOf(occupancy_.grid(), empty_distances_),
                        .steps = scene_steps.Scaled(batch.step_scale),
                        .scene_steps = scene_steps,
                        .batch = &batch};
  // Long rays make small chunks. A function of the batch alone, so the same for any number of
  // threads.
  const double chunk_rays =
      static_cast<double>(options_.chunk_samples) * batch.n_rays / batch.target_samples;
  const int rays_per_chunk = std::clamp(static_cast<int>(chunk_rays), 4, 64);
  const int n_chunks = (batch.n_rays + rays_per_chunk - 1) / rays_per_chunk;
  const auto rows_a_ray =
      static_cast<uint32_t>((kMinRoundRows + rays_per_chunk - 1) / rays_per_chunk);
  input.round_samples = std::max(kMinRoundSamples, static_cast<int>(std::bit_ceil(rows_a_ray)));
  pool_->ParallelFor(options_.n_lanes, [&](int64_t lane, int thread) {
    ChunkSums& sums = sums_[lane];
    sums.Clear();
    for (int chunk = static_cast<int>(lane); chunk < n_chunks; chunk += options_.n_lanes) {
      const int begin = chunk * rays_per_chunk;
      chunks_[thread].Run(input, begin, std::min(begin + rays_per_chunk, batch.n_rays),
                          static_cast<int>(lane), fields_[thread].get(), &sums);
    }
  });
}

void FieldStep::SaveCommon(TensorFile* file) const {
  StoreOccupancy(occupancy_, file);
  SaveUpdateCount(n_updates_, file);
  ray_count().Save(file);
}

absl::Status FieldStep::LoadCommon(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
  NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
  NERF_RETURN_IF_ERROR(LoadOccupancy(file, geometry_, &occupancy_));
  grid_changed_ = true;
  n_updates_ = n_updates;
  ray_count().Restore(rays);
  return absl::OkStatus();
}

void FieldStep::InitializeCommon(const TensorFile& file) {
  InitializeOccupancy(file, geometry_, &occupancy_);
  grid_changed_ = true;
  n_updates_ = 0;
}

}  // namespace nerf
