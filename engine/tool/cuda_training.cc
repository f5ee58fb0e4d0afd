#include "engine/tool/cuda_training.h"

#include <new>
#include <optional>
#include <string>

#include "common/error_reason.h"
#include "common/logging.h"
#include "engine/kernels/cuda/device.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/checkpoint.h"
#include "engine/train/memory_estimate.h"
#include "fmt/format.h"

namespace nerf {

absl::StatusOr<std::unique_ptr<TrainingStep>> NewCudaStepWithPictures(const TrainConfig& config,
                                                                      const SceneGeometry& geometry,
                                                                      const Scene& scene,
                                                                      int index) {
  const std::string device = fmt::format("cuda:{}", index);
  kernels::cuda::UseDevice(index);
  if (absl::Status status = CheckNgpCudaTraining(config); !status.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("device {}: {}", device, std::string(status.message())));
  }
  const size_t needed = NgpCudaStepBytes(config, geometry);
  const size_t free = kernels::cuda::DescribeDevice(index).free_bytes;
  if (needed > free) {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "training needs {} MiB on device {} and {} MiB are free; a lower "
                          "log2_hashmap_size or target_samples needs less",
                          needed >> 20, device, free >> 20)),
                      reason::kGpuOutOfMemory);
  }
  RaySource source{scene.train, TrainingBackground(config.background, scene.has_alpha),
                   geometry.near};
  std::optional<PictureMemory> place;
  if (!scene.train.empty())
    place = ChoosePictureMemory(source, free - needed, AvailableMemoryBytes());
  if (!place.has_value()) return NewNgpCudaStep(config, geometry);
  source.place = *place;
  if (source.place == PictureMemory::kDevice) return NewNgpCudaStep(config, geometry, &source);
  try {
    return NewNgpCudaStep(config, geometry, &source);
  } catch (const kernels::cuda::CudaOutOfMemory&) {
    throw;  // derives from bad_alloc, but is the device's memory
  } catch (const std::bad_alloc&) {
    LogWarning("cannot lock host memory for the training pictures; the host draws the rays",
               {{"device", device}});
    return NewNgpCudaStep(config, geometry);
  }
}

}  // namespace nerf
