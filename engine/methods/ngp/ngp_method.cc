#include <new>
#include <optional>
#include <string>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/files/checkpoint.h"
#include "engine/kernels/cuda/device.h"
#include "engine/methods/ngp/bench.h"
#include "engine/methods/ngp/cuda_buffers.h"
#include "engine/methods/ngp/cuda_render_device.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/proposals.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp/view_appearances.h"
#include "engine/parameters/memory_estimate.h"
#include "engine/train/method.h"
#include "fmt/format.h"

namespace nerf {

const MethodDescription& DescribeNgp();

namespace {

// The step on a CUDA device, and where the training pictures go: into the device's memory, or into
// page-locked memory of the host, whichever has room first. With pictures in either place the
// device draws its rays; otherwise the host draws and copies them.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewCudaStep(const StepRequest& request) {
  TrainConfig config = request.config;
  // Masks may come as files, too, where the setting is off.
  if (request.scene.alpha_is_mask) config.alpha_is_mask = 1;
  const SceneGeometry& geometry = request.geometry;
  const int index = *request.cuda_device;
  kernels::cuda::UseDevice(index);
  if (absl::Status status = CheckNgpCudaTraining(config); !status.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("device cuda:{}: {}", index, std::string(status.message())));
  }
  Group* const group = request.group;
  const size_t needed = NgpCudaStepBytes(config, geometry, group != nullptr ? group->n_ranks() : 1,
                                         request.scene.train.size());
  const size_t free = kernels::cuda::DescribeDevice(index).free_bytes;
  if (needed > free) {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "training needs {} MiB on device cuda:{} and {} MiB are free; a lower "
                          "log2_hashmap_size or target_samples needs less",
                          needed >> 20, index, free >> 20)),
                      reason::kGpuOutOfMemory);
  }
  const Scene& scene = request.scene;
  RaySource source{.views = scene.train,
                   .background = TrainingBackground(config.background, scene.has_alpha),
                   .near = geometry.near,
                   .far = geometry.far,
                   .alpha_is_mask = scene.alpha_is_mask};
  std::optional<PictureMemory> place;
  if (!scene.train.empty() && !NeedsRaysOfTheHost(config))
    place = ChoosePictureMemory(source, free - needed, AvailableMemoryBytes());
  const auto new_step = [&](const RaySource* from) -> std::unique_ptr<TrainingStep> {
    if (from != nullptr) return NewNgpCudaStep(config, geometry, from, {}, nullptr, group);
    return NewNgpCudaStep(config, geometry, nullptr, request.scene.train, request.pool, group,
                          {request.scene.points, request.scene.depth_maps});
  };
  if (!place.has_value()) return new_step(nullptr);
  source.place = *place;
  if (source.place == PictureMemory::kDevice) return new_step(&source);
  try {
    return new_step(&source);
  } catch (const kernels::cuda::CudaOutOfMemory&) {
    throw;  // derives from bad_alloc, but is the device's memory
  } catch (const std::bad_alloc&) {
    LogWarning("cannot lock host memory for the training pictures; the host draws the rays",
               {{"device", fmt::format("cuda:{}", index)}});
    return new_step(nullptr);
  }
}

class NgpMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeNgp(); }

  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    if (Ngp(request.config).depth_weight > 0 && request.scene.points.empty() &&
        request.scene.depth_maps.empty()) {
      return WithReason(
          absl::InvalidArgumentError(
              "settings.depth_weight: the data set has neither points, which COLMAP models have in "
              "points3D, nor depth files, which frames name as depth_file_path"),
          reason::kFieldInvalid);
    }
    if (request.cuda_device.has_value()) return NewCudaStep(request);
    if (Ngp(request.config).sampler == Sampler::kProposals) {
      return NewNgpProposalStep(request.config, request.geometry, request.pool,
                                request.scene.train);
    }
    return NewNgpCpuStep(request.config, request.geometry, request.pool, request.scene.train,
                         request.group, {request.scene.points, request.scene.depth_maps});
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& config,
      const SceneGeometry& geometry) const override {
    return LoadNgpModel(file, config, geometry);
  }
  absl::Status ShowAsView(int view, TensorFile* file) const override {
    return ShowAppearanceOf(view, file);
  }
  std::unique_ptr<RenderDevice> NewCudaRenderDevice(int index) const override {
    return NewNgpCudaRenderDevice(index);
  }
  std::vector<Bench> Benches(const Scene& scene) const override { return NgpBenches(*this, scene); }
};

}  // namespace

const Method& NgpMethod() {
  static const auto& method = *new NgpMethodImpl();
  return method;
}

}  // namespace nerf
