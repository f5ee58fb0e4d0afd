#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "engine/base/check.h"
#include "engine/methods/ngp/cuda/cuda_ngp_step.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// Features of the levels that take part.
size_t ActiveWidth(const TrainConfig& config, const CudaStepShape& shape) {
  return static_cast<size_t>(Ngp(config).n_features_per_level) * shape.n_levels;
}

size_t BackwardBlocks(const TrainConfig& config) {
  return config.cuda_fp32 != 0 ? cuda::NgpBackwardBlocks<float>() : cuda::NgpBackwardBlocks<Half>();
}

// The times of rays are those of their pictures.
CudaRayNeeds NeedsOf(const TrainConfig& config, bool has_warp) {
  CudaRayNeeds needs = CudaRayNeedsOf(config);
  needs.views = needs.views || has_warp;
  return needs;
}

}  // namespace

template <typename T>
NgpCudaStep<T>::NgpCudaStep(const TrainConfig& config, const SceneGeometry& geometry,
                            ThreadPool* pool, std::span<const View> views, const RaySource* source,
                            Group* group, const KnownDepths& depths,
                            std::unique_ptr<NgpCudaWarp> warp)
    : RayStep(config, geometry, views, pool),
      config_(config),
      state_(std::make_unique<NgpState>(WithoutHalfTable(config), geometry)),
      warp_(std::move(warp)),
      n_backward_blocks_(cuda::NgpBackwardBlocks<T>()),
      ranks_(group, config, state_->parameters.arrays().table.size(), n_backward_blocks_),
      arrays_(state_->parameters.arrays().table.size(), state_->occupancy.bits().size(),
              cuda::DeviceAllocator()),
      training_(config, arrays_.table.size(), n_backward_blocks_, ranks_.n_rows(),
                cuda::DeviceAllocator()),
      grid_(config, &state_->occupancy, arrays_.grid_values.data(), arrays_.grid_blocks.data()),
      remembered_arrays_(arrays_.table.size(), arrays_.grid_blocks.size(), cuda::DeviceAllocator()),
      pictures_(source, config.seed, stream_),
      needs_(NeedsOf(config, warp_ != nullptr)),
      views_(config, geometry, source != nullptr ? source->views : views),
      shape_(InitialCudaStepShape(config)),
      rays_(shape_.ray_capacity, needs_, cuda::DeviceAllocator()),
      samples_(shape_.sample_capacity, cuda::DeviceAllocator()),
      control_(1, cuda::DeviceAllocator()),
      counts_(1, cuda::DeviceAllocator()),
      host_control_(1, cuda::PinnedAllocator()),
      host_counts_(1, cuda::PinnedAllocator()),
      host_batch_(source == nullptr ? shape_.ray_capacity : 0, needs_, cuda::PinnedAllocator()),
      host_results_(shape_.ray_capacity, needs_, cuda::PinnedAllocator()),
      depths_(Ngp(config).depth_weight > 0 ? depths : KnownDepths()) {
  // Only the host's rays go where poses are, and to where depths are known.
  NERF_CHECK(source == nullptr || !NeedsRaysOfTheHost(config));
  NERF_CHECK(warp_ == nullptr || group == nullptr);
  if (warp_ != nullptr) warp_->Reserve(shape_.sample_capacity);
  Upload();
  // Before the first step, whose time counts: kernels are loaded when they are first recorded.
  RecordGraphs();
}

template <typename T>
StepResult NgpCudaStep<T>::Run(const PixelBatch& batch) {
  const StepResult result = RayStep::Run(batch);
  PictureErrors& errors = views_.learned().errors;
  if (!errors.empty())
    errors.Observe(batch, host_results_.errors.span().first(batch.pixels.size()));
  return result;
}

template <typename T>
StepResult NgpCudaStep<T>::RunRays(const RayBatch& batch) {
  if (depths_.empty()) return RunAllRays(batch);
  with_depth_ = batch;
  AppendDepthRays(depths_, cameras(), views_.learned().poses, state_->geometry.near, config_.seed,
                  &with_depth_);
  StepResult result = RunAllRays(with_depth_);
  // Whoever chooses the number of rays counts those of pixels.
  result.n_rays = batch.n_rays;
  return result;
}

template <typename T>
StepResult NgpCudaStep<T>::RunAllRays(const RayBatch& batch) {
  NERF_CHECK(batch.weights.empty() || needs_.weights);
  const IndexRange rays = ranks_.RaysOf(batch.n_rays, batch.rays_per_pixel);
  // At least as large as at the start: if memory ran out, the last step has no arrays any more.
  Reshape(shape_.WithRays(static_cast<uint32_t>(rays.end - rays.begin))
              .WithSamples(InitialCudaStepShape(config_).sample_capacity)
              .WithLevels(ActiveLevels(config_, batch.fraction)));
  const SteadyTime begin = clock_.Now();
  const GroupTraffic before = ranks_.traffic();
  if (state_->occupancy.IsDue(batch.step)) UpdateGrid(batch.step);
  graph_seconds_ = 0;
  const CudaRankCounts counts = RunToFit(batch);
  if (!ranks_.alone()) UpdateWithRanks();
  ++state_->n_updates;
  views_.Update(state_->parameters, batch, static_cast<int>(state_->n_updates),
                CudaGradientScale(config_, static_cast<uint32_t>(batch.n_rays)).factor,
                host_results_, &cameras());
  if (state_->n_updates % kNgpAverageInterval == 0) UpdateAverages();
  if (costs_.has_value()) AddCosts(counts.n_trained, begin, before);
  StepResult result;
  result.n_rays = batch.n_rays;
  result.n_marched = static_cast<int64_t>(counts.n_marched);
  result.n_trained = static_cast<int64_t>(counts.n_trained);
  result.device_seconds = graph_seconds_;
  result.loss = counts.loss / batch.n_rays;
  result.squared_error = counts.squared_error / batch.n_rays;
  if (host_counts_[0].not_finite != 0 || !views_.learned().appearances.IsFinite())
    result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Runs the graph, with larger arrays where samples did not fit, until they do on all ranks. Nothing
// is updated before.
template <typename T>
CudaRankCounts NgpCudaStep<T>::RunToFit(const RayBatch& batch) {
  const CudaStepCounts& device = host_counts_[0];
  CudaRankCounts counts;
  bool fits = false;  // here
  do {
    if (!fits) {
      if (!DrawsPixels()) CopyBatch(batch);
      WriteControl(batch);
      if (graph_ == nullptr) RecordGraphs();
      graph_seconds_ += runs_.Run(*graph_);
      fits = device.overflow == 0;
    }
    counts = {.n_trained = device.samples[cuda::kKeptPart], .fits = fits ? 1u : 0u};
    for (int part = 0; part < cuda::kKeptPart; ++part) counts.n_marched += device.samples[part];
    for (int block = 0; block < cuda::kLossBlocks; ++block) {
      counts.loss += device.losses[2 * block];
      counts.squared_error += device.losses[2 * block + 1];
    }
    if (!fits) {
      // What was counted is the least that is needed.
      const CudaStepShape larger = shape_.WithSamples(counts.n_marched);
      if (larger == shape_) throw cuda::CudaOutOfMemory();
      Reshape(larger);
    }
  } while (ranks_.alone() ? !fits : !ranks_.ShareCounts(&counts));
  return counts;
}

template <typename T>
void NgpCudaStep<T>::UpdateWithRanks() {
  ranks_.SumGradients(&training_, stream_);
  graph_seconds_ += runs_.Run(*update_graph_);
  ranks_.ShareTable(&training_, &arrays_, stream_);
}

template <typename T>
void NgpCudaStep<T>::AddCosts(uint64_t n_trained, SteadyTime begin, const GroupTraffic& before) {
  const GroupTraffic traffic = ranks_.traffic().Since(before);
  ++costs_->n_steps;
  costs_->n_trained += static_cast<int64_t>(n_trained);
  costs_->seconds += absl::ToDoubleSeconds(clock_.Now() - begin) - traffic.seconds;
  costs_->bytes_received += static_cast<double>(traffic.bytes_received);
}

// Ranks send the whole table, whatever the step.
template <typename T>
double NgpCudaStep<T>::BytesOfStep(const StepOutlook&, int) const {
  if (!costs_.has_value() || costs_->n_steps == 0) return 0;
  return costs_->bytes_received / static_cast<double>(costs_->n_steps);
}

template <typename T>
void NgpCudaStep<T>::CollectState() {
  if (!ranks_.alone()) ranks_.Collect(&arrays_, stream_);
}

// Makes room. The old arrays go first, so that the new ones may take their place; where those do
// not fit, the next step starts from none.
template <typename T>
void NgpCudaStep<T>::Reshape(const CudaStepShape& shape) {
  if (shape == shape_) return;
  graph_.reset();
  update_graph_.reset();
  if (shape.ray_capacity != shape_.ray_capacity) {
    shape_.ray_capacity = 0;
    rays_ = CudaRays<T>(0, needs_, cuda::DeviceAllocator());
    rays_ = CudaRays<T>(shape.ray_capacity, needs_, cuda::DeviceAllocator());
    host_batch_ =
        CudaBatch(DrawsPixels() ? 0 : shape.ray_capacity, needs_, cuda::PinnedAllocator());
    host_results_ = CudaRayResults(shape.ray_capacity, needs_, cuda::PinnedAllocator());
  }
  if (shape.sample_capacity != shape_.sample_capacity) {
    shape_.sample_capacity = 0;
    samples_ = CudaSamples<T>(0, cuda::DeviceAllocator());
    if (warp_ != nullptr) warp_->Reserve(0);
    samples_ = CudaSamples<T>(shape.sample_capacity, cuda::DeviceAllocator());
    if (warp_ != nullptr) warp_->Reserve(shape.sample_capacity);
  }
  if (shape.n_levels != shape_.n_levels) {
    // The features of the other levels, which nothing writes: zeros, as in new arrays.
    const size_t first = ActiveWidth(config_, shape) * shape.sample_capacity;
    cuda::Fill(samples_.encodings.data() + first, 0,
               (samples_.encodings.size() - first) * sizeof(T), stream_);
  }
  shape_ = shape;
}

template <typename T>
void NgpCudaStep<T>::CopyBatch(const RayBatch& batch) {
  const IndexRange rays = ranks_.RaysOf(batch.n_rays, batch.rays_per_pixel);
  CopyRays(batch, rays, &host_batch_);
  const auto copy = [&](const auto& from, auto& to) {
    std::copy(from.begin() + rays.begin, from.begin() + rays.end, to.begin());
  };
  if (needs_.views) {
    NERF_CHECK(batch.views.size() == static_cast<size_t>(batch.n_rays));
    copy(batch.views, host_batch_.views);
  }
  if (needs_.depths && batch.depths.empty())
    std::fill(host_batch_.depths.begin(), host_batch_.depths.end(), 0.0f);
  if (needs_.depths && !batch.depths.empty()) copy(batch.depths, host_batch_.depths);
}

template <typename T>
void NgpCudaStep<T>::WriteControl(const RayBatch& batch) {
  const auto n_rays = static_cast<uint32_t>(batch.n_rays);
  const GradientScale scale = CudaGradientScale(config_, n_rays);
  const int t = static_cast<int>(state_->n_updates) + 1;
  const NgpParameters& parameters = state_->parameters;
  CudaStepControl& control = host_control_[0];
  control = {};
  control.step = batch.step;
  control.rays_per_pixel = static_cast<uint32_t>(batch.rays_per_pixel);
  control.step_scale = batch.step_scale;
  control.distortion = batch.distortion;
  control.gradient_scale = scale.scale;
  control.table = {parameters.TableAdam(batch.learning_rate, t), scale.factor};
  control.weights = {parameters.WeightsAdam(batch.learning_rate, t), scale.factor};
  ranks_.WriteBounds(batch.n_rays, batch.rays_per_pixel, &host_control_[0]);
  if (warp_ != nullptr) {
    const float rate = Ngp(config_).warp_rate * batch.learning_rate;
    warp_->WriteSettings({parameters.WeightsAdam(rate, t), scale.factor});
  }
}

std::unique_ptr<RayStep> NewNgpCudaStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        const RaySource* source, std::span<const View> views,
                                        ThreadPool* pool, Group* group, const KnownDepths& depths,
                                        std::unique_ptr<NgpCudaWarp> warp) {
  if (config.cuda_fp32 != 0) {
    return std::make_unique<NgpCudaStep<float>>(config, geometry, pool, views, source, group,
                                                depths, std::move(warp));
  }
  return std::make_unique<NgpCudaStep<Half>>(config, geometry, pool, views, source, group, depths,
                                             std::move(warp));
}

size_t NgpCudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry, int n_ranks,
                        size_t n_views) {
  return CudaStepBytes(config, geometry, LargestCudaStepShape(config), BackwardBlocks(config),
                       n_ranks, n_views);
}

bool NeedsRaysOfTheHost(const TrainConfig& config) {
  const NgpSettings& settings = Ngp(config);
  return settings.pose_rate > 0 || settings.focal_rate > 0 || settings.depth_weight > 0 ||
         settings.error_share > 0 || settings.coarse_pictures > 0;
}

absl::Status CheckNgpCudaTraining(const TrainConfig& config) {
  const size_t needed = config.cuda_fp32 != 0 ? cuda::NgpBackwardSharedBytes<float>()
                                              : cuda::NgpBackwardSharedBytes<Half>();
  const size_t there = cuda::MaxSharedBytesPerBlock();
  if (needed <= there) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "a block has {} KiB of shared memory and the backward pass needs {}{}", there >> 10,
      needed >> 10, config.cuda_fp32 != 0 ? "; without cuda_fp32 it needs less" : ""));
}

}  // namespace nerf
