#include "engine/methods/ngp/cuda/new_cuda_step.h"

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/methods/ngp/steps.h"
#include "fmt/format.h"

namespace nerf {

absl::StatusOr<std::unique_ptr<TrainingStep>> NewNgpStepOnDevice(const StepRequest& request,
                                                                 const NgpCudaWarpMaker& warp) {
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
                                         request.scene.train.size()) +
                        (warp.make != nullptr ? warp.byte_size() : 0);
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
    std::unique_ptr<NgpCudaWarp> moves = warp.make != nullptr ? warp.make() : nullptr;
    if (from != nullptr) {
      return NewNgpCudaStep(config, geometry, from, {}, nullptr, group, {}, std::move(moves));
    }
    return NewNgpCudaStep(config, geometry, nullptr, request.scene.train, request.pool, group,
                          {request.scene.points, request.scene.depth_maps}, std::move(moves));
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

}  // namespace nerf
