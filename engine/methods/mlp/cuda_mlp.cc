#include "engine/methods/mlp/cuda_mlp.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/kernels/cuda/device.h"
#include "engine/kernels/view_rays.h"
#include "engine/methods/mlp/cuda_network.h"
#include "engine/methods/mlp/field.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"
#include "engine/train/cuda_dense_parameters.h"
#include "engine/train/cuda_field_step.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

MlpPlacement PlacementIn(const SceneGeometry& geometry) {
  return MlpPlacementOf(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1))));
}
CudaFieldFrame FrameOf(const MlpPlacement& placement) {
  return {placement.center, {placement.scale, placement.scale, placement.scale}};
}

template <typename T>
class MlpCudaField final : public CudaField {
 public:
  MlpCudaField(const TrainConfig& config, const SceneGeometry& geometry)
      : config_(config),
        geometry_(geometry),
        placement_(PlacementIn(geometry)),
        host_(config),
        parameters_(host_.arrays().values.size(), cuda::kWideParts),
        network_(MlpNetworks(config)[0], /*with_backward=*/true) {}

  CudaFieldFrame frame() const override { return FrameOf(placement_); }
  void Reserve(uint32_t ray_capacity, uint32_t sample_capacity) override {
    network_.Reserve(ray_capacity, sample_capacity);
  }

  void Begin(const kernels::DeviceRange& range, const Ray* rays, kernels::Stream stream) override {
    network_.EncodeDirections(range, &rays->direction, sizeof(Ray), stream);
  }
  void Density(const cuda::DensityTargets& to, const Vec3* positions,
               kernels::Stream stream) override {
    network_.Density(to, positions, parameters_.values(), placement_.scale, stream);
  }
  void Color(const CudaKeptSamples& kept, Vec3* colors, kernels::Stream stream) override {
    network_.ForwardAll({kept.range, kept.rows, kept.ray_of}, kept.positions, parameters_.values(),
                        colors, stream);
  }
  void Backward(const CudaKeptSamples& kept, const float* grads, kernels::Stream stream) override {
    network_.Backward({kept.range, kept.rows, kept.ray_of}, kept.sigmas, grads, placement_.scale,
                      parameters_.values(), parameters_.gradients(), parameters_.size(), stream);
  }
  void Update(const CudaFieldUpdate& update, kernels::Stream stream) override {
    parameters_.Update(update.settings, update.skip, update.not_finite, stream);
  }

  kernels::AdamSettings Adam(const RayBatch& batch, int t) override {
    return AdamAt(batch.learning_rate, config_.beta1, config_.beta2, config_.epsilon, t);
  }
  void EndStep(int t, kernels::Stream stream) override {
    if (t % kMlpAverageInterval == 0)
      parameters_.UpdateAverages(AverageDecay(config_, kMlpAverageInterval), stream);
  }

  void Upload(kernels::Stream stream) override { parameters_.Upload(host_.arrays(), stream); }
  void Download(kernels::Stream stream) override { parameters_.Download(host_.arrays(), stream); }
  void Save(TensorFile* file) const override { host_.Save(file); }
  absl::Status Load(const TensorFile& file) override { return host_.Load(file); }
  void SaveModel(TensorFile* file) const override { host_.SaveModel(file); }
  absl::Status Initialize(const TensorFile& file) override { return host_.Initialize(file); }
  std::unique_ptr<TrainedModel> NewModel(const OccupancyGrid& grid) const override {
    return NewMlpGridModel(config_, geometry_, host_.Evaluation(), grid);
  }

 private:
  const TrainConfig config_;
  const SceneGeometry geometry_;
  const MlpPlacement placement_;
  MlpParameters host_;
  CudaDenseParameters<T> parameters_;
  MlpCudaNetwork<T> network_;
};

template <typename T>
size_t FieldBytes(const MlpLayout& layout, size_t n_rays, size_t n_samples) {
  MeasuringAllocator measure;
  CudaDenseArrays<T>(layout.size, cuda::kWideParts, &measure);
  MlpCudaArrays<T>(layout, n_rays, n_samples, /*with_backward=*/true, &measure);
  return measure.byte_size();
}

// A view's samples are evaluated one wave after another; so many tiles keep a device busy.
constexpr uint32_t kMlpViewTiles = 64;

template <typename T>
class MlpViewField final : public CudaViewField {
 public:
  MlpViewField(const MlpNetwork& network, kernels::Stream stream)
      : placement_(network.placement),
        network_(*network.layout, /*with_backward=*/false),
        weights_(network.layout->size, cuda::DeviceAllocator()) {
    std::vector<T> weights(network.layout->size);
    for (size_t i = 0; i < weights.size(); ++i) {
      if constexpr (std::is_same_v<T, Half>)
        weights[i] = HalfFromFloat(network.parameters[i]);
      else
        weights[i] = network.parameters[i];
    }
    cuda::CopyToDevice(weights_.data(), weights.data(), weights_.byte_size(), stream);
    cuda::Synchronize(stream);
  }

  CudaFieldFrame frame() const override { return FrameOf(placement_); }
  uint32_t tiles_at_once() const override { return kMlpViewTiles; }
  void Reserve(uint32_t ray_capacity, uint32_t sample_capacity) override {
    network_.Reserve(ray_capacity, sample_capacity);
  }
  void Begin(const kernels::DeviceRange& range, const kernels::ViewRay* rays,
             kernels::Stream stream) override {
    network_.EncodeDirections(range, &rays->march.direction, sizeof(kernels::ViewRay), stream);
  }
  void Evaluate(const Samples& samples, kernels::Stream stream) override {
    network_.Density({.range = samples.range, .sigmas = samples.sigmas}, samples.positions,
                     weights_.data(), placement_.scale, stream);
    network_.Color({samples.range, nullptr, samples.ray_of}, weights_.data(), samples.colors,
                   stream);
  }

 private:
  const MlpPlacement placement_;
  MlpCudaNetwork<T> network_;
  Buffer<T> weights_;
};

}  // namespace

std::unique_ptr<CudaField> NewMlpCudaField(const TrainConfig& config,
                                           const SceneGeometry& geometry) {
  if (config.cuda_fp32 != 0) return std::make_unique<MlpCudaField<float>>(config, geometry);
  return std::make_unique<MlpCudaField<Half>>(config, geometry);
}

size_t MlpCudaFieldBytes(const TrainConfig& config, size_t n_rays, size_t n_samples) {
  const MlpLayout layout = MlpNetworks(config)[0];
  return config.cuda_fp32 != 0 ? FieldBytes<float>(layout, n_rays, n_samples)
                               : FieldBytes<Half>(layout, n_rays, n_samples);
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewMlpStepOnDevice(const StepRequest& request) {
  return NewCudaFieldStep(
      request, [&] { return NewMlpCudaField(request.config, request.geometry); },
      [&](uint32_t n_rays, uint32_t n_samples) {
        return MlpCudaFieldBytes(request.config, n_rays, n_samples);
      });
}

NgpViewParts MlpViewParts(const RadianceField& field, RenderPrecision precision,
                          kernels::Stream stream) {
  const auto* mlp = dynamic_cast<const MlpField*>(&field);
  NERF_CHECK(mlp != nullptr);
  NgpViewParts parts;
  if (precision == RenderPrecision::kSingle)
    parts.field = std::make_unique<MlpViewField<float>>(mlp->network(), stream);
  else
    parts.field = std::make_unique<MlpViewField<Half>>(mlp->network(), stream);
  return parts;
}

}  // namespace nerf
