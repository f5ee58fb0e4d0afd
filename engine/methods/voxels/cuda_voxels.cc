#include "engine/methods/voxels/cuda_voxels.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/field/kernels/voxels.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/methods/voxels/describe/voxels_settings.h"
#include "engine/methods/voxels/field.h"
#include "engine/methods/voxels/voxel_file.h"
#include "engine/methods/voxels/voxels_state.h"
#include "engine/train/cuda_field_step.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

CudaFieldFrame FrameOfUnitCube(const Aabb& box) {
  const Vec3 size = box.Size();
  return {box.min, {1 / size.x, 1 / size.y, 1 / size.z}};
}

size_t PlacesOf(int resolution) {
  const auto side = static_cast<size_t>(resolution / 4);
  return side * side * side;
}

// The voxels on a device, all from one allocator.
struct CudaVoxels {
  CudaVoxels(int resolution, size_t n_bricks, BufferAllocator* from)
      : resolution(resolution),
        bricks(PlacesOf(resolution), from),
        values(n_bricks * kBrickFloats, from) {}
  cuda::DeviceVoxels view() const { return {{resolution, bricks.data()}, values.data()}; }
  void Upload(const VoxelGrid& grid, kernels::Stream stream) {
    cuda::CopyToDevice(bricks.data(), grid.bricks().data(), bricks.byte_size(), stream);
    cuda::CopyToDevice(values.data(), grid.values().data(), values.byte_size(), stream);
  }
  int resolution;
  Buffer<int32_t> bricks;
  Buffer<float> values;
};

struct CudaVoxelsTraining {
  CudaVoxelsTraining(size_t n_bricks, bool fixed_point, BufferAllocator* from)
      : places(n_bricks, from),
        first(n_bricks * kBrickFloats, from),
        second(n_bricks * kBrickFloats, from),
        gradients(fixed_point ? 0 : n_bricks * kBrickFloats, from),
        fixed_gradients(fixed_point ? n_bricks * kBrickFloats : 0, from) {}
  Buffer<uint32_t> places;
  Buffer<float> first, second;
  Buffer<float> gradients;  // zeros between steps
  Buffer<int64_t> fixed_gradients;
};

class VoxelsCudaField final : public CudaField {
 public:
  VoxelsCudaField(const TrainConfig& config, const SceneGeometry& geometry)
      : config_(config),
        geometry_(geometry),
        placement_(VoxelPlacementOf(config, geometry)),
        state_(UntrainedVoxels(config)) {
    RestartMoments();
  }

  CudaFieldFrame frame() const override { return FrameOfUnitCube(placement_.box); }
  void Reserve(uint32_t /*ray_capacity*/, uint32_t /*sample_capacity*/) override {}

  void Begin(const kernels::DeviceRange&, const Ray*, kernels::Stream) override {}
  void Density(const cuda::DensityTargets& to, const Vec3* positions,
               kernels::Stream stream) override {
    cuda::VoxelDensity({.to = to,
                        .voxels = voxels_.view(),
                        .positions = positions,
                        .shift = placement_.density_shift},
                       stream);
  }
  void Color(const CudaKeptSamples& kept, Vec3* colors, kernels::Stream stream) override {
    cuda::VoxelColor({.samples = SamplesOf(kept), .voxels = voxels_.view(), .colors = colors},
                     stream);
  }
  void Backward(const CudaKeptSamples& kept, const float* grads, kernels::Stream stream) override {
    cuda::VoxelBackward({.samples = SamplesOf(kept),
                         .bricks = voxels_.view().bricks,
                         .grads = grads,
                         .to = Gradients()},
                        stream);
  }
  void Update(const CudaFieldUpdate& update, kernels::Stream stream) override {
    const VoxelsSettings& settings = Voxels(config_);
    if (settings.tv_density > 0 || settings.tv_color > 0) {
      cuda::VoxelVariation({.n_bricks = static_cast<uint32_t>(training_.places.size()),
                            .places = training_.places.data(),
                            .voxels = voxels_.view(),
                            .density_weight = settings.tv_density,
                            .color_weight = settings.tv_color,
                            .scale = update.loss_factor,
                            .step = update.step,
                            .period = kVariationPeriod,
                            .to = Gradients()},
                           stream);
    }
    // A voxel that is not finite shows in the loss of the rays that meet it.
    cuda::AdamSparse({.settings = update.settings,
                      .skip = update.skip,
                      .n = static_cast<int64_t>(voxels_.values.size()),
                      .gradients = training_.gradients.data(),
                      .fixed_gradients = training_.fixed_gradients.data(),
                      .parameters = voxels_.values.data(),
                      .first_moments = training_.first.data(),
                      .second_moments = training_.second.data()},
                     stream);
  }

  kernels::AdamSettings Adam(const RayBatch& batch, int /*t*/) override {
    return AdamAt(batch.learning_rate, config_.beta1, config_.beta2, config_.epsilon,
                  static_cast<int>(state_.updates_since_change) + 1);
  }
  void EndStep(int /*t*/, kernels::Stream /*stream*/) override { ++state_.updates_since_change; }
  bool IsChangeDue(double fraction) const override {
    return state_.n_changes < VoxelChangesDue(config_, fraction);
  }
  void Change(double fraction, const OccupancyGrid& grid) override {
    const int n_changes = state_.n_changes;
    ChangeVoxels(config_, fraction, grid, &state_);
    if (state_.n_changes != n_changes) RestartMoments();
  }

  // The old arrays go first.
  void Upload(kernels::Stream stream) override {
    const VoxelGrid& grid = state_.grid;
    if (voxels_.resolution != grid.resolution() || training_.places.size() != grid.n_bricks()) {
      const bool fixed_point = config_.cuda_deterministic != 0;
      voxels_ = CudaVoxels(4, 0, cuda::DeviceAllocator());
      training_ = CudaVoxelsTraining(0, fixed_point, cuda::DeviceAllocator());
      voxels_ = CudaVoxels(grid.resolution(), grid.n_bricks(), cuda::DeviceAllocator());
      training_ = CudaVoxelsTraining(grid.n_bricks(), fixed_point, cuda::DeviceAllocator());
    }
    voxels_.Upload(grid, stream);
    cuda::CopyToDevice(training_.places.data(), grid.places().data(), training_.places.byte_size(),
                       stream);
    cuda::CopyToDevice(training_.first.data(), moments_.first.data(), training_.first.byte_size(),
                       stream);
    cuda::CopyToDevice(training_.second.data(), moments_.second.data(),
                       training_.second.byte_size(), stream);
    cuda::Synchronize(stream);
  }
  void Download(kernels::Stream stream) override {
    cuda::CopyToHost(state_.grid.values().data(), voxels_.values.data(), voxels_.values.byte_size(),
                     stream);
    cuda::CopyToHost(moments_.first.data(), training_.first.data(), training_.first.byte_size(),
                     stream);
    cuda::CopyToHost(moments_.second.data(), training_.second.data(), training_.second.byte_size(),
                     stream);
    cuda::Synchronize(stream);
  }

  void Save(TensorFile* file) const override { SaveVoxelsState(config_, state_, moments_, file); }
  absl::Status Load(const TensorFile& file) override {
    VoxelMoments moments;
    NERF_ASSIGN_OR_RETURN(state_, LoadVoxelsState(config_, file, &moments));
    moments_ = std::move(moments);
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override {
    StoreVoxels(config_, state_.grid, DType::kF16, file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(state_, InitialVoxels(config_, file));
    RestartMoments();
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> NewModel(const OccupancyGrid& grid) const override {
    return NewVoxelsModel(placement_, Copy(state_.grid), geometry_, grid);
  }

 private:
  static cuda::VoxelSamples SamplesOf(const CudaKeptSamples& kept) {
    return {.range = kept.range,
            .rows = kept.rows,
            .ray_of = kept.ray_of,
            .positions = kept.positions,
            .directions = &kept.rays->direction,
            .direction_stride = sizeof(Ray)};
  }
  cuda::VoxelGradients Gradients() {
    return {training_.gradients.data(), training_.fixed_gradients.data()};
  }
  void RestartMoments() {
    const size_t n = state_.grid.values().size();
    moments_ = {Buffer<float>(n), Buffer<float>(n)};
  }

  const TrainConfig config_;
  const SceneGeometry geometry_;
  const VoxelPlacement placement_;
  // The host's copy.
  VoxelsState state_;
  VoxelMoments moments_;
  CudaVoxels voxels_{4, 0, cuda::DeviceAllocator()};
  CudaVoxelsTraining training_{0, false, cuda::DeviceAllocator()};
};

class VoxelsViewField final : public CudaViewField {
 public:
  VoxelsViewField(const VoxelsField& field, kernels::Stream stream)
      : placement_(field.placement()),
        voxels_(field.grid().resolution(), field.grid().n_bricks(), cuda::DeviceAllocator()) {
    voxels_.Upload(field.grid(), stream);
    cuda::Synchronize(stream);
  }

  CudaFieldFrame frame() const override { return FrameOfUnitCube(placement_.box); }
  uint32_t tiles_at_once() const override { return UINT32_MAX; }
  void Reserve(uint32_t /*ray_capacity*/, uint32_t /*sample_capacity*/) override {}
  void Begin(const kernels::DeviceRange&, const kernels::ViewRay*, kernels::Stream) override {}
  void Evaluate(const Samples& samples, kernels::Stream stream) override {
    cuda::VoxelDensity({.to = {.range = samples.range, .sigmas = samples.sigmas},
                        .voxels = voxels_.view(),
                        .positions = samples.positions,
                        .shift = placement_.density_shift},
                       stream);
    cuda::VoxelColor({.samples = {.range = samples.range,
                                  .ray_of = samples.ray_of,
                                  .positions = samples.positions,
                                  .directions = &samples.rays->march.direction,
                                  .direction_stride = sizeof(kernels::ViewRay)},
                      .voxels = voxels_.view(),
                      .colors = samples.colors},
                     stream);
  }

 private:
  const VoxelPlacement placement_;
  CudaVoxels voxels_;
};

}  // namespace

std::unique_ptr<CudaField> NewVoxelsCudaField(const TrainConfig& config,
                                              const SceneGeometry& geometry) {
  return std::make_unique<VoxelsCudaField>(config, geometry);
}

size_t VoxelsCudaFieldBytes(const TrainConfig& config, int resolution, size_t n_bricks) {
  MeasuringAllocator measure;
  CudaVoxels(resolution, n_bricks, &measure);
  CudaVoxelsTraining(n_bricks, config.cuda_deterministic != 0, &measure);
  return measure.byte_size();
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewVoxelsStepOnDevice(const StepRequest& request) {
  const TrainConfig& config = request.config;
  return NewCudaFieldStep(
      request, [&] { return NewVoxelsCudaField(config, request.geometry); },
      [&](uint32_t, uint32_t) {
        const int largest =
            std::max(Voxels(config).first_resolution, Voxels(config).finest_resolution);
        return VoxelsCudaFieldBytes(config, largest, VoxelsMostBricks(config));
      });
}

NgpViewParts VoxelsViewParts(const RadianceField& field, RenderPrecision /*precision*/,
                             kernels::Stream stream) {
  const auto* voxels = dynamic_cast<const VoxelsField*>(&field);
  NERF_CHECK(voxels != nullptr);
  NgpViewParts parts;
  parts.field = std::make_unique<VoxelsViewField>(*voxels, stream);
  return parts;
}

}  // namespace nerf
