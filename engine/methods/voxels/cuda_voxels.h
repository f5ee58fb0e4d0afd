#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/methods/ngp/cuda/cuda_render_device.h"
#include "engine/train/cuda_field.h"
#include "engine/train/method.h"

namespace nerf {

// Voxels on the current CUDA device, for CudaFieldStep. All in fp32; with cuda_deterministic sums
// of gradients do not depend on their order.
std::unique_ptr<CudaField> NewVoxelsCudaField(const TrainConfig& config,
                                              const SceneGeometry& geometry);
// Its device memory, with so many bricks, in a grid of this resolution.
size_t VoxelsCudaFieldBytes(const TrainConfig& config, int resolution, size_t n_bricks);
// The step on request.cuda_device. Errors: as Method::NewStep.
absl::StatusOr<std::unique_ptr<TrainingStep>> NewVoxelsStepOnDevice(const StepRequest& request);

// For NewNgpCudaRenderDevice.
NgpViewParts VoxelsViewParts(const RadianceField& field, RenderPrecision precision,
                             kernels::Stream stream);

}  // namespace nerf
