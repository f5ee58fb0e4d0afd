#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/training_step.h"

namespace nerf {

// The step of method ngp on CUDA device `index`, and where the training pictures go: into the
// device's memory, or into page-locked memory of the host, whichever has room first. With pictures
// in either place the device draws its rays; otherwise the host draws and copies them.
// Errors: FailedPrecondition for a config that the CUDA step does not support; ResourceExhausted
// GPU_OUT_OF_MEMORY with the sizes. Throws kernels::cuda::CudaError.
// Requires: CheckDevice("cuda:index") is OK.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewCudaStepWithPictures(const TrainConfig& config,
                                                                      const SceneGeometry& geometry,
                                                                      const Scene& scene,
                                                                      int index);

}  // namespace nerf
