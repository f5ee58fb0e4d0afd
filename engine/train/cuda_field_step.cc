#include "engine/train/cuda_field_step.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/base/config/step_size.h"
#include "engine/field/kernels/occupancy_update.h"
#include "engine/field/parameters/update_count.h"
#include "engine/train/occupancy_file.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

constexpr uint32_t kMinDeviceRays = 1024, kMinDeviceSamples = 1 << 12;
// About the target is trained, but more samples are marched, and their number varies.
constexpr uint64_t kDeviceSamplesPerTarget = 4;
constexpr uint64_t kMostDeviceSamples = uint64_t{1} << 30;
// Gradients of samples are about as large as this over their number in a ray, so that half
// precision holds them: a power of two, which the update takes away exactly.
constexpr float kGradientBoost = 128;

uint32_t RayCapacity(uint32_t n_rays) { return std::bit_ceil(std::max(n_rays, kMinDeviceRays)); }
uint32_t SampleCapacity(uint64_t n_samples) {
  return static_cast<uint32_t>(
      std::bit_ceil(std::clamp<uint64_t>(n_samples, kMinDeviceSamples, kMostDeviceSamples)));
}
uint32_t FirstSampleCapacity(const TrainConfig& config) {
  return SampleCapacity(std::max(kDeviceSamplesPerTarget * StepSizeOf(config).target_samples,
                                 static_cast<uint64_t>(kFirstRaySamples) * config.initial_rays));
}

}  // namespace

CudaFieldStep::CudaFieldStep(const TrainConfig& config, const SceneGeometry& geometry,
                             std::span<const View> views, ThreadPool* pool,
                             std::unique_ptr<CudaField> field, bool has_weights)
    : RayStep(config, geometry, views, pool),
      config_(config),
      geometry_(geometry),
      has_weights_(has_weights),
      field_(std::move(field)),
      occupancy_(std::make_unique<OccupancyUpdater>(config, geometry)),
      rays_(0, has_weights, cuda::DeviceAllocator()),
      samples_(0, cuda::DeviceAllocator()),
      grid_values_(occupancy_->values().size(), cuda::DeviceAllocator()),
      grid_blocks_(occupancy_->bits().size(), cuda::DeviceAllocator()),
      grid_(config, occupancy_.get(), grid_values_.data(), grid_blocks_.data()),
      control_(1, cuda::DeviceAllocator()),
      counts_(1, cuda::DeviceAllocator()),
      host_batch_(0, has_weights, cuda::PinnedAllocator()),
      host_control_(1, cuda::PinnedAllocator()),
      host_counts_(1, cuda::PinnedAllocator()) {
  Reshape(static_cast<uint32_t>(config.initial_rays), FirstSampleCapacity(config));
  UploadAll();
}

StepResult CudaFieldStep::RunRays(const RayBatch& batch) {
  NERF_CHECK(batch.weights.empty() || has_weights_);
  // If memory ran out, the last step has no arrays any more.
  Reshape(static_cast<uint32_t>(batch.n_rays), FirstSampleCapacity(config_));
  if (occupancy_->IsDue(batch.step)) {
    if (field_->IsChangeDue(batch.fraction)) ChangeField(batch.fraction);
    UpdateGrid(batch.step);
  }
  WriteControl(batch);
  StepResult result;
  const CudaStepCounts& counts = host_counts_[0];
  for (;;) {
    CopyRays(batch, {0, batch.n_rays}, &host_batch_);
    if (graph_ == nullptr) graph_ = std::make_unique<cuda::Graph>(stream_, [this] { Record(); });
    result.device_seconds += runs_.Run(*graph_);
    result.n_marched = 0;
    for (int part = 0; part < cuda::kWaves; ++part) result.n_marched += counts.samples[part];
    if (counts.overflow == 0) break;
    // What was counted is the least that is needed. Nothing was updated.
    if (static_cast<uint64_t>(result.n_marched) > kMostDeviceSamples) throw cuda::CudaOutOfMemory();
    Reshape(static_cast<uint32_t>(batch.n_rays),
            std::max<uint64_t>(result.n_marched, uint64_t{sample_capacity_} + 1));
  }
  ++n_updates_;
  field_->EndStep(static_cast<int>(n_updates_), stream_);
  result.n_rays = batch.n_rays;
  result.n_trained = counts.samples[cuda::kKeptPart];
  for (int block = 0; block < cuda::kLossBlocks; ++block) {
    result.loss += counts.losses[2 * block] / batch.n_rays;
    result.squared_error += counts.losses[2 * block + 1] / batch.n_rays;
  }
  if (counts.not_finite != 0) result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Makes room. The old arrays go first, so that the new ones may take their place.
void CudaFieldStep::Reshape(uint32_t n_rays, uint64_t n_samples) {
  const bool more_rays = n_rays > ray_capacity_, more_samples = n_samples > sample_capacity_;
  if (!more_rays && !more_samples) return;
  graph_.reset();
  const uint32_t rays = more_rays ? RayCapacity(n_rays) : ray_capacity_;
  const uint32_t samples = more_samples ? SampleCapacity(n_samples) : sample_capacity_;
  if (more_rays) {
    ray_capacity_ = 0;
    rays_ = CudaFieldRays(0, has_weights_, cuda::DeviceAllocator());
    rays_ = CudaFieldRays(rays, has_weights_, cuda::DeviceAllocator());
    host_batch_ = CudaFieldBatch(rays, has_weights_, cuda::PinnedAllocator());
  }
  if (more_samples) {
    sample_capacity_ = 0;
    samples_ = CudaFieldSamples(0, cuda::DeviceAllocator());
    samples_ = CudaFieldSamples(samples, cuda::DeviceAllocator());
  }
  ray_capacity_ = sample_capacity_ = 0;
  field_->Reserve(rays, samples);
  ray_capacity_ = rays;
  sample_capacity_ = samples;
}

void CudaFieldStep::WriteControl(const RayBatch& batch) {
  const auto n_rays = static_cast<uint32_t>(batch.n_rays);
  const float power = kGradientBoost * static_cast<float>(std::bit_ceil(n_rays));
  field_->WriteSettings(batch, static_cast<int>(n_updates_) + 1, 1 / power);
  host_control_[0] = {
      {.n_rays = n_rays,
       .step = batch.step,
       .step_scale = batch.step_scale,
       .distortion = batch.distortion,
       .gradient_scale = config_.loss_scale / (3.0f * static_cast<float>(n_rays)) * power},
      config_.loss_scale * power,
      {field_->Adam(batch, static_cast<int>(n_updates_) + 1), 1 / power}};
}

void CudaFieldStep::Record() {
  cuda::CopyToDevice(control_.data(), host_control_.data(), control_.byte_size(), stream_);
  UploadRays(host_batch_, &rays_.batch, stream_);
  cuda::Fill(counts_.data(), 0, counts_.byte_size(), stream_);
  field_->Begin({ray_capacity_, &control_.data()->n_rays}, rays_.batch.rays.data(), stream_);
  const CudaFieldFrame frame = field_->frame();
  const CudaRayWork work{config_,         {geometry_.step, geometry_.cone},
                         control_.data(), rays_.batch,
                         rays_,           samples_,
                         counts_.data()};
  const cuda::MarchParams march = work.March(grid_.MarchGrid(), frame.origin, frame.scale);
  for (int wave = 0; wave < cuda::kWaves; ++wave) {
    cuda::MarchWave(march, wave, stream_);
    field_->Density({.range = {sample_capacity_, march.counts, wave},
                     .deltas = samples_.deltas.data(),
                     .sigmas = samples_.sigmas.data(),
                     .alphas = samples_.alphas.data(),
                     .cells = samples_.cells.data(),
                     .step_length = occupancy_->step_length(),
                     .skip = &counts_.data()->overflow,
                     .values = grid_values_.data()},
                    samples_.positions.data(), stream_);
  }
  cuda::CompactSamples(march, stream_);
  // Where samples did not fit, none is kept, and what follows has nothing to do.
  TrainSamples(work, {sample_capacity_, march.counts + cuda::kKeptPart});
  cuda::CopyToHost(host_counts_.data(), counts_.data(), counts_.byte_size(), stream_);
}

// Color, loss, the backward pass and the update.
void CudaFieldStep::TrainSamples(const CudaRayWork& work, const kernels::DeviceRange& range) {
  const CudaKeptSamples kept{.range = range,
                             .rows = samples_.rows.data(),
                             .ray_of = samples_.ray_of.data(),
                             .positions = samples_.positions.data(),
                             .sigmas = samples_.sigmas.data(),
                             .rays = rays_.batch.rays.data()};
  field_->Color(kept, samples_.colors.data(), stream_);
  cuda::CompositeLoss(work.Loss(), stream_);
  field_->Backward(kept, samples_.grads.data(), stream_);
  field_->Update({.settings = &control_.data()->adam,
                  .loss_factor = &control_.data()->loss_factor,
                  .step = &control_.data()->step,
                  .skip = &counts_.data()->overflow,
                  .not_finite = &counts_.data()->not_finite},
                 stream_);
}

void CudaFieldStep::UpdateGrid(uint32_t step) {
  const CudaFieldFrame frame = field_->frame();
  const auto density = [&](const kernels::DeviceRange& points) {
    field_->Density({.range = points,
                     .sigmas = samples_.sigmas.data(),
                     .cells = samples_.cells.data(),
                     .step_length = occupancy_->step_length(),
                     .values = grid_values_.data()},
                    samples_.positions.data(), stream_);
  };
  grid_.Update(step, frame.origin, {1 / frame.scale.x, 1 / frame.scale.y, 1 / frame.scale.z},
               &samples_, density, stream_);
}

void CudaFieldStep::ChangeField(double fraction) {
  DownloadAll();
  graph_.reset();
  field_->Change(fraction, occupancy_->grid());
  field_->Upload(stream_);
}

void CudaFieldStep::UploadAll() {
  graph_.reset();  // the field's arrays may move
  field_->Upload(stream_);
  cuda::CopyToDevice(grid_values_.data(), occupancy_->values().data(), grid_values_.byte_size(),
                     stream_);
  cuda::CopyToDevice(grid_blocks_.data(), occupancy_->bits().data(), grid_blocks_.byte_size(),
                     stream_);
  grid_.FollowUpload(stream_);
}

void CudaFieldStep::DownloadAll() const {
  field_->Download(stream_);
  cuda::CopyToHost(occupancy_->values().data(), grid_values_.data(), grid_values_.byte_size(),
                   stream_);
  cuda::CopyToHost(occupancy_->bits().data(), grid_blocks_.data(), grid_blocks_.byte_size(),
                   stream_);
  cuda::Synchronize(stream_);
}

void CudaFieldStep::Save(TensorFile* file) const {
  DownloadAll();
  field_->Save(file);
  StoreOccupancy(*occupancy_, file);
  SaveUpdateCount(n_updates_, file);
  ray_count().Save(file);
}

absl::Status CudaFieldStep::Load(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
  NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
  NERF_RETURN_IF_ERROR(CheckOccupancy(file, geometry_, *occupancy_));
  NERF_RETURN_IF_ERROR(field_->Load(file));
  NERF_RETURN_IF_ERROR(LoadOccupancy(file, geometry_, occupancy_.get()));
  n_updates_ = n_updates;
  ray_count().Restore(rays);
  UploadAll();
  return absl::OkStatus();
}

void CudaFieldStep::SaveModel(TensorFile* file) const {
  DownloadAll();
  field_->SaveModel(file);
  StoreOccupancyBits(occupancy_->grid(), file);
}

absl::Status CudaFieldStep::Initialize(const TensorFile& file) {
  NERF_RETURN_IF_ERROR(field_->Initialize(file));
  InitializeOccupancy(file, geometry_, occupancy_.get());
  n_updates_ = 0;
  UploadAll();
  return absl::OkStatus();
}

std::unique_ptr<TrainedModel> CudaFieldStep::Snapshot() const {
  DownloadAll();
  return field_->NewModel(occupancy_->grid());
}

void CudaFieldStep::ReopenGrid() {
  DownloadAll();
  occupancy_->Reopen();
  UploadAll();
}

void CudaFieldStep::KeepEmpty(const EmptyCells& cells) {
  DownloadAll();
  occupancy_->KeepEmpty(cells(occupancy_->grid()));
  UploadAll();
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewCudaFieldStep(
    const StepRequest& request, const std::function<std::unique_ptr<CudaField>()>& new_field,
    const std::function<size_t(uint32_t n_rays, uint32_t n_samples)>& byte_size) {
  const TrainConfig& config = request.config;
  const int index = *request.cuda_device;
  cuda::UseDevice(index);
  const bool has_weights = request.scene.alpha_is_mask;
  const size_t needed =
      CudaFieldStepBytes(config, request.geometry, has_weights) +
      byte_size(
          RayCapacity(static_cast<uint32_t>(StepSizeOf(config).max_rays)),
          std::max(FirstSampleCapacity(config),
                   SampleCapacity(uint64_t{kMarchedPerTarget} * LargestTargetSamples(config))));
  const size_t free = cuda::DescribeDevice(index).free_bytes;
  if (needed > free) {
    return WithReason(
        absl::ResourceExhaustedError(fmt::format(
            "training needs {} MiB on device cuda:{} and {} MiB are free; a lower target_samples "
            "needs less",
            needed >> 20, index, free >> 20)),
        reason::kGpuOutOfMemory);
  }
  return std::make_unique<CudaFieldStep>(config, request.geometry, request.scene.train,
                                         request.pool, new_field(), has_weights);
}

size_t CudaFieldStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                          bool has_weights) {
  MeasuringAllocator measure;
  const auto side = static_cast<size_t>(GridResolution(config));
  const size_t n_cells = geometry.n_levels * side * side * side;
  Buffer<float>(n_cells, &measure);
  Buffer<uint64_t>(n_cells / 64, &measure);
  CudaGridWork(n_cells / 64, &measure);
  CudaFieldRays(RayCapacity(static_cast<uint32_t>(StepSizeOf(config).max_rays)), has_weights,
                &measure);
  CudaFieldSamples(
      std::max(FirstSampleCapacity(config),
               SampleCapacity(uint64_t{kMarchedPerTarget} * LargestTargetSamples(config))),
      &measure);
  Buffer<CudaFieldControl>(1, &measure);
  Buffer<CudaStepCounts>(1, &measure);
  return measure.byte_size();
}

}  // namespace nerf
