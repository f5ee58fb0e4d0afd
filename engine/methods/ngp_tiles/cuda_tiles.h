#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/methods/ngp/cuda/cuda_render_device.h"
#include "engine/train/cuda_field.h"
#include "engine/train/method.h"

namespace nerf {

// NewTiledStep with the steps of all tiles on request.cuda_device. Errors: as Method::NewStep.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewTiledStepOnDevice(const StepRequest& request);

// Tiles that are trained jointly on the current device, for CudaFieldStep, and their step on
// request.cuda_device.
std::unique_ptr<CudaField> NewJointCudaField(const TrainConfig& config,
                                             const SceneGeometry& geometry, const Scene& scene);
absl::StatusOr<std::unique_ptr<TrainingStep>> NewJointStepOnDevice(const StepRequest& request);

// For NewNgpCudaRenderDevice: the fields of all tiles as one, TiledField.
NgpViewParts TiledViewParts(const RadianceField& field, RenderPrecision precision,
                            kernels::Stream stream);

}  // namespace nerf
