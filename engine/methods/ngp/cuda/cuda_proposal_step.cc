#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/config/step_size.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/parameters/update_count.h"
#include "engine/methods/ngp/cuda/cuda_network.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "engine/methods/ngp/proposal_model.h"
#include "engine/methods/ngp/proposal_rays.h"
#include "engine/methods/ngp/proposals.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

// Proposal and field on a device. The host places the samples, composites them and finds the loss.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// As in CudaFieldStep.
constexpr float kGradientBoost = 128;

// The samples of all rays of a step in one network, on the device.
struct ProposalArrays {
  ProposalArrays(size_t n_samples, BufferAllocator* from)
      : positions(n_samples, from),
        ray_of(n_samples, from),
        sigmas(n_samples, from),
        colors(n_samples, from),
        grads(4 * n_samples, from) {}
  Buffer<Vec3> positions;
  Buffer<uint32_t> ray_of;
  Buffer<float> sigmas;
  Buffer<Vec3> colors;
  Buffer<float> grads;
};

// One of the two networks: its parameters, and its samples of a step.
template <typename T>
class DeviceNetwork {
 public:
  DeviceNetwork(const TrainConfig& config, const SceneGeometry& geometry)
      : config_(WithoutHalfTable(config)),
        scene_(ProposalSceneNetwork(config, geometry)),
        host_(config_, scene_.shape),
        network_(config, scene_.density_shift, &host_),
        arrays_(0, cuda::DeviceAllocator()) {
    host_.InitializeRandomly();
  }
  const NgpNetwork& scene() const { return scene_; }
  NgpParameters& host() { return host_; }
  const NgpParameters& host() const { return host_; }
  NgpCudaNetwork<T>& device() { return network_; }
  const NgpCudaNetwork<T>& device() const { return network_; }
  int ActiveLevelsAt(double fraction) const {
    return std::min(scene_.shape.n_levels, ActiveLevels(config_, fraction));
  }

  // Densities, and colors where harmonics are given, of the chunks' rows.
  void Evaluate(const std::vector<ProposalRays>& chunks, ProposalRows ProposalRays::*rows_of,
                const T* harmonics, kernels::Stream stream) {
    std::vector<Vec3> positions;
    std::vector<uint32_t> ray_of;
    uint32_t n_rays = 0;
    for (const ProposalRays& chunk : chunks) {
      const ProposalRows& rows = chunk.*rows_of;
      positions.insert(positions.end(), rows.unit.begin(), rows.unit.end());
      for (const int ray : rows.ray_of) ray_of.push_back(n_rays + static_cast<uint32_t>(ray));
      n_rays += static_cast<uint32_t>(chunk.rays().size());
    }
    n_ = static_cast<uint32_t>(positions.size());
    network_.Reserve(n_);
    if (n_ > arrays_.positions.size()) {
      arrays_ = ProposalArrays(0, cuda::DeviceAllocator());
      arrays_ = ProposalArrays(std::bit_ceil(n_), cuda::DeviceAllocator());
    }
    cuda::CopyToDevice(arrays_.positions.data(), positions.data(), n_ * sizeof(Vec3), stream);
    cuda::CopyToDevice(arrays_.ray_of.data(), ray_of.data(), n_ * sizeof(uint32_t), stream);
    network_.Density({n_}, arrays_.positions.data(), arrays_.sigmas.data(), stream);
    if (harmonics != nullptr)
      network_.Color({n_}, arrays_.ray_of.data(), harmonics, arrays_.colors.data(), stream);
    cuda::Synchronize(stream);
  }
  // Copies what Evaluate found to the rows.
  void Bring(std::vector<ProposalRays>* chunks, ProposalRows ProposalRays::*rows_of,
             bool has_colors, kernels::Stream stream) const {
    std::vector<float> sigmas(n_);
    std::vector<Vec3> colors(has_colors ? n_ : 0);
    cuda::CopyToHost(sigmas.data(), arrays_.sigmas.data(), n_ * sizeof(float), stream);
    if (has_colors)
      cuda::CopyToHost(colors.data(), arrays_.colors.data(), n_ * sizeof(Vec3), stream);
    cuda::Synchronize(stream);
    size_t first = 0;
    for (ProposalRays& chunk : *chunks) {
      ProposalRows& rows = chunk.*rows_of;
      const int n = rows.size();
      std::copy_n(sigmas.begin() + static_cast<int64_t>(first), n, rows.sigmas.begin());
      if (has_colors)
        std::copy_n(colors.begin() + static_cast<int64_t>(first), n, rows.colors.begin());
      first += n;
    }
  }

  // The gradients by the parameters, times `factor`.
  void Backward(const std::vector<ProposalRays>& chunks, ProposalRows ProposalRays::*rows_of,
                bool has_colors, const T* harmonics, float factor, kernels::Stream stream) {
    std::vector<float> grads;
    grads.reserve(4 * size_t{n_});
    for (const ProposalRays& chunk : chunks) {
      const ProposalRows& rows = chunk.*rows_of;
      for (int i = 0; i < rows.size(); ++i) {
        const Vec3 c = rows.colors[i];
        const Vec3 by_color =
            has_colors ? rows.grad_colors[i] * c * (Vec3{1, 1, 1} - c) * factor : Vec3();
        grads.insert(grads.end(), {by_color.x, by_color.y, by_color.z,
                                   rows.grad_sigmas[i] * rows.sigmas[i] * factor});
      }
    }
    cuda::CopyToDevice(arrays_.grads.data(), grads.data(), grads.size() * sizeof(float), stream);
    network_.Backward({n_}, arrays_.positions.data(), arrays_.ray_of.data(), harmonics,
                      arrays_.grads.data(), stream);
    cuda::Synchronize(stream);
  }

 private:
  const TrainConfig config_;
  const NgpNetwork scene_;
  NgpParameters host_;
  NgpCudaNetwork<T> network_;
  ProposalArrays arrays_;
  uint32_t n_ = 0;  // samples of the step
};

template <typename T>
class NgpProposalCudaStep final : public RayStep {
 public:
  NgpProposalCudaStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
                      std::span<const View> views)
      : RayStep(config, geometry, views, pool),
        config_(config),
        geometry_(geometry),
        pool_(pool),
        proposal_(NgpProposalConfig(config), geometry),
        field_(config, geometry) {
    UploadAll();
  }

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override {
    DownloadAll();
    field_.host().Save(file);
    TensorFile proposal;
    proposal_.host().Save(&proposal);
    AddWithPrefix(proposal, kProposalPrefix, file);
    SaveUpdateCount(n_updates_, file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
    // The host's copies are the device's after a failure, too.
    DownloadAll();
    NgpParameters checked(WithoutHalfTable(NgpProposalConfig(config_)), proposal_.scene().shape);
    const TensorFile of_proposal = WithoutPrefix(file, kProposalPrefix);
    NERF_RETURN_IF_ERROR(checked.Load(of_proposal));
    NERF_RETURN_IF_ERROR(field_.host().Load(file));
    NERF_RETURN_IF_ERROR(proposal_.host().Load(of_proposal));
    n_updates_ = n_updates;
    ray_count().Restore(rays);
    UploadAll();
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override {
    DownloadAll();
    field_.host().SaveModel(file);
    TensorFile proposal;
    proposal_.host().SaveModel(&proposal);
    AddWithPrefix(proposal, kProposalPrefix, file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_RETURN_IF_ERROR(proposal_.host().Initialize(WithoutPrefix(file, kProposalPrefix)));
    NERF_RETURN_IF_ERROR(field_.host().Initialize(file));
    n_updates_ = 0;
    UploadAll();
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    DownloadAll();
    const auto evaluation = [](const NgpParameters& parameters) -> NgpEvaluationParameters {
      return {parameters.EvaluationTable(), parameters.EvaluationWeights()};
    };
    return NewNgpProposalModel(config_, geometry_, evaluation(proposal_.host()),
                               evaluation(field_.host()));
  }

 private:
  void UploadAll() {
    proposal_.device().Upload(stream_);
    field_.device().Upload(stream_);
  }
  void DownloadAll() const {
    proposal_.device().Download(stream_);
    field_.device().Download(stream_);
  }
  // Calls body(chunk, its index) on the pool's threads.
  template <typename Body>
  void ForChunks(Body body) {
    pool_->ParallelFor(static_cast<int64_t>(chunks_.size()),
                       [&](int64_t i, int) { body(chunks_[i], static_cast<int>(i)); });
  }
  void FindHarmonics();
  bool Update(const RayBatch& batch, float gradient_factor);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  cuda::OwnedStream owned_stream_;
  const kernels::Stream stream_ = owned_stream_.get();
  mutable DeviceNetwork<T> proposal_, field_;  // Download writes the host's copies
  std::vector<ProposalRays> chunks_;
  Buffer<Ray> rays_{0, cuda::DeviceAllocator()};
  Buffer<T> harmonics_{0, cuda::DeviceAllocator()};
  Buffer<cuda::AdamStepSettings> settings_{2, cuda::DeviceAllocator()};
  Buffer<uint32_t> flags_{2, cuda::DeviceAllocator()};  // skip, which stays 0, and not_finite
  uint32_t n_updates_ = 0;
};

// Of the directions of the chunks' rays.
template <typename T>
void NgpProposalCudaStep<T>::FindHarmonics() {
  std::vector<Ray> rays;
  for (const ProposalRays& chunk : chunks_)
    rays.insert(rays.end(), chunk.rays().begin(), chunk.rays().end());
  if (rays.size() > rays_.size()) {
    const size_t capacity = std::bit_ceil(rays.size());
    rays_ = Buffer<Ray>(capacity, cuda::DeviceAllocator());
    harmonics_ = Buffer<T>(kDirectionWidth * capacity, cuda::DeviceAllocator());
  }
  cuda::CopyToDevice(rays_.data(), rays.data(), rays.size() * sizeof(Ray), stream_);
  cuda::SphericalHarmonics(
      cuda::SphericalHarmonicsParams<T>{.range = {static_cast<uint32_t>(rays.size())},
                                        .rays = rays_.data(),
                                        .harmonics = harmonics_.data()},
      stream_);
  cuda::Synchronize(stream_);
}

template <typename T>
StepResult NgpProposalCudaStep<T>::RunRays(const RayBatch& batch) {
  const ProposalPlan plan{.config = &config_,
                          .proposal = proposal_.scene(),
                          .field = field_.scene(),
                          .disparity = UsesDisparity(config_, geometry_),
                          .exponent = AnnealedExponent(batch.fraction),
                          .batch = &batch};
  constexpr int kRays = ProposalRays::kMaxRays;
  chunks_.resize((batch.n_rays + kRays - 1) / kRays);
  proposal_.device().SetLevels(proposal_.ActiveLevelsAt(batch.fraction), stream_);
  field_.device().SetLevels(field_.ActiveLevelsAt(batch.fraction), stream_);
  StepResult result;
  result.n_rays = batch.n_rays;
  ForChunks([&](ProposalRays& chunk, int i) {
    chunk.Begin(plan, i * kRays, std::min((i + 1) * kRays, batch.n_rays));
  });
  FindHarmonics();
  auto const proposals = &ProposalRays::proposals, samples = &ProposalRays::samples;
  proposal_.Evaluate(chunks_, proposals, nullptr, stream_);
  proposal_.Bring(&chunks_, proposals, /*has_colors=*/false, stream_);
  ForChunks([&](ProposalRays& chunk, int) { chunk.Resample(plan); });
  field_.Evaluate(chunks_, samples, harmonics_.data(), stream_);
  field_.Bring(&chunks_, samples, /*has_colors=*/true, stream_);
  std::vector<double> losses(chunks_.size()), squares(chunks_.size());
  ForChunks(
      [&](ProposalRays& chunk, int i) { chunk.FindGradients(plan, &losses[i], &squares[i]); });
  for (size_t i = 0; i < chunks_.size(); ++i) {
    result.loss += losses[i] / batch.n_rays;
    result.squared_error += squares[i] / batch.n_rays;
    result.n_trained += chunks_[i].samples.size();
    result.n_marched += chunks_[i].samples.size() + chunks_[i].proposals.size();
  }
  const float factor =
      kGradientBoost * static_cast<float>(std::bit_ceil(static_cast<uint32_t>(batch.n_rays)));
  proposal_.Backward(chunks_, proposals, /*has_colors=*/false, harmonics_.data(), factor, stream_);
  field_.Backward(chunks_, samples, /*has_colors=*/true, harmonics_.data(), factor, stream_);
  if (!Update(batch, 1 / factor)) result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Returns false if a weight is not finite afterwards.
template <typename T>
bool NgpProposalCudaStep<T>::Update(const RayBatch& batch, float gradient_factor) {
  const int t = static_cast<int>(++n_updates_);
  const NgpParameters& parameters = field_.host();
  const cuda::AdamStepSettings settings[2] = {
      {parameters.TableAdam(batch.learning_rate, t), gradient_factor},
      {parameters.WeightsAdam(batch.learning_rate, t), gradient_factor}};
  cuda::CopyToDevice(settings_.data(), settings, sizeof(settings), stream_);
  cuda::Fill(flags_.data(), 0, flags_.byte_size(), stream_);
  for (DeviceNetwork<T>* network : {&proposal_, &field_}) {
    network->device().Update(settings_.data(), flags_.data(), flags_.data() + 1, stream_);
    if (t % static_cast<int>(kNgpAverageInterval) == 0)
      network->device().UpdateAverages(AverageDecay(config_, kNgpAverageInterval), stream_);
  }
  uint32_t flags[2];
  cuda::CopyToHost(flags, flags_.data(), sizeof(flags), stream_);
  cuda::Synchronize(stream_);
  return flags[1] == 0;
}

template <typename T>
size_t StepBytes(const TrainConfig& config, const SceneGeometry& geometry) {
  const NgpSettings& settings = Ngp(config);
  // Rays for the field's samples of the largest step; arrays are powers of two.
  const size_t samples = std::bit_ceil(static_cast<size_t>(
      std::max<uint64_t>(MaxStepSamples(config), uint64_t{64} * settings.field_samples)));
  const size_t rays = samples / settings.field_samples + 1;
  const size_t proposals = std::bit_ceil(rays * settings.proposal_samples);
  MeasuringAllocator measure;
  ProposalArrays(samples, &measure);
  ProposalArrays(proposals, &measure);
  const TrainConfig of_proposal = NgpProposalConfig(config);
  return measure.byte_size() +
         NgpCudaNetwork<T>::Bytes(config, ProposalSceneNetwork(config, geometry).shape, samples) +
         NgpCudaNetwork<T>::Bytes(of_proposal, ProposalSceneNetwork(of_proposal, geometry).shape,
                                  proposals);
}

}  // namespace

std::unique_ptr<RayStep> NewNgpProposalCudaStep(const TrainConfig& config,
                                                const SceneGeometry& geometry, ThreadPool* pool,
                                                std::span<const View> views) {
  if (config.cuda_fp32 != 0)
    return std::make_unique<NgpProposalCudaStep<float>>(config, geometry, pool, views);
  return std::make_unique<NgpProposalCudaStep<Half>>(config, geometry, pool, views);
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewNgpProposalStepOnDevice(
    const StepRequest& request) {
  const TrainConfig& config = request.config;
  const int index = *request.cuda_device;
  cuda::UseDevice(index);
  if (absl::Status status = CheckNgpCudaTraining(config); !status.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("device cuda:{}: {}", index, std::string(status.message())));
  }
  const size_t needed = config.cuda_fp32 != 0 ? StepBytes<float>(config, request.geometry)
                                              : StepBytes<Half>(config, request.geometry);
  const size_t free = cuda::DescribeDevice(index).free_bytes;
  if (needed > free) {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "training needs {} MiB on device cuda:{} and {} MiB are free; a lower "
                          "log2_hashmap_size or target_samples needs less",
                          needed >> 20, index, free >> 20)),
                      reason::kGpuOutOfMemory);
  }
  return NewNgpProposalCudaStep(config, request.geometry, request.pool, request.scene.train);
}

}  // namespace nerf
