#include "engine/methods/mlp/cuda_mlp.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/view_rays.h"
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

  CudaFieldFrame frame() const override { return MlpFrame(placement_); }
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

}  // namespace nerf
