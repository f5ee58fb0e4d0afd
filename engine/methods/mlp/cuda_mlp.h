#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/methods/ngp/cuda/cuda_render_device.h"
#include "engine/train/cuda_field.h"
#include "engine/train/method.h"
#include "engine/train/ray_step.h"

namespace nerf {

// One network of method mlp on the current CUDA device, for CudaFieldStep: in fp32 with cuda_fp32,
// else in half precision.
std::unique_ptr<CudaField> NewMlpCudaField(const TrainConfig& config,
                                           const SceneGeometry& geometry);
// Its device memory.
size_t MlpCudaFieldBytes(const TrainConfig& config, size_t n_rays, size_t n_samples);
// The step with one network on request.cuda_device. Errors: as Method::NewStep.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewMlpStepOnDevice(const StepRequest& request);

// The step with coarse and fine network on the current CUDA device, and on request.cuda_device.
std::unique_ptr<RayStep> NewMlpPairCudaStep(const TrainConfig& config,
                                            const SceneGeometry& geometry,
                                            std::span<const View> views, ThreadPool* pool);
absl::StatusOr<std::unique_ptr<TrainingStep>> NewMlpPairStepOnDevice(const StepRequest& request);

// Renders models of method mlp, and of others with its fields, on CUDA device `index`: as
// NewNgpCudaRenderDevice says.
std::unique_ptr<RenderDevice> NewMlpCudaRenderDevice(int index);

}  // namespace nerf
