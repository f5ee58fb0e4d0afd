#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/config/step_size.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/parameters/update_count.h"
#include "engine/methods/mlp/cuda_mlp.h"
#include "engine/methods/mlp/cuda_network.h"
#include "engine/methods/mlp/hierarchical.h"
#include "engine/methods/mlp/pair_samples.h"
#include "engine/methods/mlp/pair_step.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"
#include "engine/train/cuda_dense_parameters.h"
#include "engine/train/ray_count_controller.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

// Coarse and fine network on a device. The host places the samples, composites them and finds the
// loss: samples of a ray are few and their networks wide.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// As in CudaFieldStep.
constexpr float kGradientBoost = 128;
constexpr int kRaysPerTask = 16;

// A network's samples on the device, all from one allocator.
struct PairArrays {
  PairArrays(size_t n_rays, size_t n_samples, BufferAllocator* from)
      : directions(n_rays, from),
        positions(n_samples, from),
        ray_of(n_samples, from),
        sigmas(n_samples, from),
        colors(n_samples, from),
        grads(4 * n_samples, from) {}
  Buffer<Vec3> directions, positions;
  Buffer<uint32_t> ray_of;
  Buffer<float> sigmas;
  Buffer<Vec3> colors;
  Buffer<float> grads;
};

template <typename T>
class PairNetwork {
 public:
  explicit PairNetwork(const MlpLayout& layout)
      : network_(layout, /*with_backward=*/true), arrays_(0, 0, cuda::DeviceAllocator()) {}

  // Densities and colors of samples at their positions, copied back.
  void Forward(const RayBatch& batch, const std::vector<int>& indices,
               const MlpPlacement& placement, const T* weights, PairSamples* samples,
               kernels::Stream stream) {
    const auto n_rays = static_cast<uint32_t>(samples->n_rays);
    const auto n = static_cast<uint32_t>(samples->size());
    Reserve(n_rays, n);
    std::vector<Vec3> directions, placed;
    for (const int index : indices) directions.push_back(batch.rays[index].direction);
    for (const Vec3& position : samples->positions)
      placed.push_back((position - placement.center) * placement.scale);
    cuda::CopyToDevice(arrays_.directions.data(), directions.data(), n_rays * sizeof(Vec3), stream);
    cuda::CopyToDevice(arrays_.positions.data(), placed.data(), n * sizeof(Vec3), stream);
    cuda::CopyToDevice(arrays_.ray_of.data(), samples->ray_of.data(), n * sizeof(int), stream);
    network_.EncodeDirections({n_rays}, arrays_.directions.data(), sizeof(Vec3), stream);
    network_.Density({.range = {n}, .sigmas = arrays_.sigmas.data()}, arrays_.positions.data(),
                     weights, placement.scale, stream);
    network_.Color({{n}, nullptr, arrays_.ray_of.data()}, weights, arrays_.colors.data(), stream);
    cuda::CopyToHost(samples->sigmas.data(), arrays_.sigmas.data(), n * sizeof(float), stream);
    cuda::CopyToHost(samples->colors.data(), arrays_.colors.data(), n * sizeof(Vec3), stream);
    cuda::Synchronize(stream);
  }

  // The gradients by the parameters, times `factor`, of the samples of Forward.
  void Backward(const PairSamples& samples, float factor, float scale, const T* weights,
                float* gradients, size_t part_stride, kernels::Stream stream) {
    const auto n = static_cast<uint32_t>(samples.size());
    std::vector<float> grads;
    for (uint32_t i = 0; i < n; ++i) {
      const Vec3 c = samples.colors[i];
      const Vec3 by_color = samples.grad_colors[i] * c * (Vec3{1, 1, 1} - c) * factor;
      grads.insert(grads.end(), {by_color.x, by_color.y, by_color.z,
                                 samples.grad_sigmas[i] * samples.sigmas[i] * factor});
    }
    cuda::CopyToDevice(arrays_.grads.data(), grads.data(), grads.size() * sizeof(float), stream);
    network_.Backward({{n}, nullptr, arrays_.ray_of.data()}, arrays_.sigmas.data(),
                      arrays_.grads.data(), scale, weights, gradients, part_stride, stream);
    cuda::Synchronize(stream);
  }

 private:
  // The old arrays go first.
  void Reserve(uint32_t n_rays, uint32_t n_samples) {
    if (n_rays <= n_rays_ && n_samples <= n_samples_) return;
    n_rays = std::max(n_rays_, std::bit_ceil(n_rays));
    n_samples = std::max(n_samples_, std::bit_ceil(n_samples));
    n_rays_ = n_samples_ = 0;
    arrays_ = PairArrays(0, 0, cuda::DeviceAllocator());
    network_.Reserve(n_rays, n_samples);
    arrays_ = PairArrays(n_rays, n_samples, cuda::DeviceAllocator());
    n_rays_ = n_rays;
    n_samples_ = n_samples;
  }

  MlpCudaNetwork<T> network_;
  PairArrays arrays_;
  uint32_t n_rays_ = 0, n_samples_ = 0;
};

template <typename T>
class MlpPairCudaStep final : public MlpPairRays {
 public:
  MlpPairCudaStep(const TrainConfig& config, const SceneGeometry& geometry,
                  std::span<const View> views, ThreadPool* pool)
      : MlpPairRays(config, geometry, views, pool),
        config_(config),
        geometry_(geometry),
        pool_(pool),
        placement_(
            MlpPlacementOf(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1))))),
        networks_(MlpNetworks(config)),
        host_(std::make_unique<MlpParameters>(config)),
        parameters_(std::make_unique<CudaDenseParameters<T>>(host_->arrays().values.size(),
                                                             cuda::kWideParts)),
        coarse_network_(networks_[0]),
        fine_network_(networks_[1]) {
    parameters_->Upload(host_->arrays(), stream_);
  }

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override {
    parameters_->Download(host_->arrays(), stream_);
    host_->Save(file);
    SaveUpdateCount(n_updates_, file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
    NERF_RETURN_IF_ERROR(host_->Load(file));
    n_updates_ = n_updates;
    ray_count().Restore(rays);
    parameters_->Upload(host_->arrays(), stream_);
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override {
    parameters_->Download(host_->arrays(), stream_);
    host_->SaveModel(file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_RETURN_IF_ERROR(host_->Initialize(file));
    n_updates_ = 0;
    parameters_->Upload(host_->arrays(), stream_);
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    parameters_->Download(host_->arrays(), stream_);
    return NewMlpPairModel(config_, geometry_, host_->Evaluation());
  }

 private:
  // Calls body(ray) of n_rays on the pool's threads.
  template <typename Body>
  void ForRays(int n_rays, Body body) {
    pool_->ParallelFor((n_rays + kRaysPerTask - 1) / kRaysPerTask, [&](int64_t task, int) {
      const int begin = static_cast<int>(task) * kRaysPerTask;
      for (int r = begin; r < std::min(begin + kRaysPerTask, n_rays); ++r) body(r);
    });
  }
  bool Update(const RayBatch& batch, float gradient_factor);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  const MlpPlacement placement_;
  const std::vector<MlpLayout> networks_;
  cuda::OwnedStream owned_stream_;
  const kernels::Stream stream_ = owned_stream_.get();
  // The host's copy, equal to the device's after Download.
  const std::unique_ptr<MlpParameters> host_;
  const std::unique_ptr<CudaDenseParameters<T>> parameters_;
  PairNetwork<T> coarse_network_, fine_network_;
  PairSamples coarse_, fine_;  // kept for their memory
  Buffer<cuda::AdamStepSettings> settings_{1, cuda::DeviceAllocator()};
  Buffer<uint32_t> flags_{2, cuda::DeviceAllocator()};  // skip, which stays 0, and not_finite
  uint32_t n_updates_ = 0;
};

template <typename T>
StepResult MlpPairCudaStep<T>::RunRays(const RayBatch& batch) {
  const std::vector<int> indices = RaysWithSamples(batch, 0, batch.n_rays);
  const auto n_rays = static_cast<int>(indices.size());
  StepResult result;
  result.n_rays = batch.n_rays;
  coarse_.Resize(n_rays, CoarseSamples(config_));
  fine_.Resize(n_rays, FineSamples(config_));
  const T* const weights = parameters_->values();
  const float factor =
      kGradientBoost * static_cast<float>(std::bit_ceil(static_cast<uint32_t>(batch.n_rays)));
  if (n_rays > 0) {
    ForRays(n_rays, [&](int r) { coarse_.PlaceCoarse(config_, batch, r, indices[r]); });
    coarse_network_.Forward(batch, indices, placement_, weights, &coarse_, stream_);
    ForRays(n_rays, [&](int r) {
      coarse_.Composite(r);
      fine_.PlaceFine(config_, batch, r, indices[r], coarse_);
    });
    fine_network_.Forward(batch, indices, placement_, weights + networks_[0].size, &fine_, stream_);
  }
  std::vector<double> losses(n_rays), squares(n_rays);
  ForRays(n_rays, [&](int r) {
    fine_.Composite(r);
    coarse_.LossAndGradients(config_, batch, r, indices[r], &losses[r]);
    squares[r] = fine_.LossAndGradients(config_, batch, r, indices[r], &losses[r]);
  });
  for (int r = 0; r < n_rays; ++r) {
    result.loss += losses[r] / batch.n_rays;
    result.squared_error += squares[r] / batch.n_rays;
  }
  result.n_marched = result.n_trained = coarse_.size() + fine_.size();
  const size_t part_stride = parameters_->size();
  float* const gradients = parameters_->gradients();
  if (n_rays > 0) {
    coarse_network_.Backward(coarse_, factor, placement_.scale, weights, gradients, part_stride,
                             stream_);
    fine_network_.Backward(fine_, factor, placement_.scale, weights + networks_[0].size,
                           gradients + networks_[0].size, part_stride, stream_);
  } else {
    cuda::Fill(gradients, 0, part_stride * cuda::kWideParts * sizeof(float), stream_);
  }
  if (!Update(batch, 1 / factor)) result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Returns false if a parameter is not finite afterwards.
template <typename T>
bool MlpPairCudaStep<T>::Update(const RayBatch& batch, float gradient_factor) {
  const auto t = static_cast<int>(++n_updates_);
  const cuda::AdamStepSettings settings{
      AdamAt(batch.learning_rate, config_.beta1, config_.beta2, config_.epsilon, t),
      gradient_factor};
  cuda::CopyToDevice(settings_.data(), &settings, sizeof(settings), stream_);
  cuda::Fill(flags_.data(), 0, flags_.byte_size(), stream_);
  parameters_->Update(settings_.data(), flags_.data(), flags_.data() + 1, stream_);
  if (t % kMlpAverageInterval == 0)
    parameters_->UpdateAverages(AverageDecay(config_, kMlpAverageInterval), stream_);
  uint32_t flags[2];
  cuda::CopyToHost(flags, flags_.data(), sizeof(flags), stream_);
  cuda::Synchronize(stream_);
  return flags[1] == 0;
}

// Both networks of a step of so many samples.
template <typename T>
size_t PairBytes(const TrainConfig& config, size_t n_rays, size_t n_samples) {
  MeasuringAllocator measure;
  size_t n_parameters = 0;
  for (const MlpLayout& layout : MlpNetworks(config)) {
    n_parameters += layout.size;
    MlpCudaArrays<T>(layout, n_rays, n_samples, /*with_backward=*/true, &measure);
    PairArrays(n_rays, n_samples, &measure);
  }
  CudaDenseArrays<T>(n_parameters, cuda::kWideParts, &measure);
  return measure.byte_size();
}

}  // namespace

std::unique_ptr<RayStep> NewMlpPairCudaStep(const TrainConfig& config,
                                            const SceneGeometry& geometry,
                                            std::span<const View> views, ThreadPool* pool) {
  if (config.cuda_fp32 != 0)
    return std::make_unique<MlpPairCudaStep<float>>(config, geometry, views, pool);
  return std::make_unique<MlpPairCudaStep<Half>>(config, geometry, views, pool);
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewMlpPairStepOnDevice(const StepRequest& request) {
  const TrainConfig& config = request.config;
  const int index = *request.cuda_device;
  cuda::UseDevice(index);
  const size_t n_samples = std::bit_ceil(static_cast<size_t>(
      std::max<uint64_t>(MaxStepSamples(config), static_cast<uint64_t>(FineSamples(config)) * 64)));
  const size_t n_rays = std::bit_ceil(n_samples / FineSamples(config) + 1);
  const size_t needed = config.cuda_fp32 != 0 ? PairBytes<float>(config, n_rays, n_samples)
                                              : PairBytes<Half>(config, n_rays, n_samples);
  const size_t free = cuda::DescribeDevice(index).free_bytes;
  if (needed > free) {
    return WithReason(
        absl::ResourceExhaustedError(fmt::format(
            "training needs {} MiB on device cuda:{} and {} MiB are free; a lower target_samples "
            "needs less",
            needed >> 20, index, free >> 20)),
        reason::kGpuOutOfMemory);
  }
  return NewMlpPairCudaStep(config, request.geometry, request.scene.train, request.pool);
}

}  // namespace nerf
