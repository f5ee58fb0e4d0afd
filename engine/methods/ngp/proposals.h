#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/trained_model.h"
#include "engine/scene/scene.h"
#include "engine/train/method.h"
#include "engine/train/ray_step.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// Method ngp with sampler=proposals: the step on the CPU, and the model in a model or checkpoint
// file. As NewNgpCpuStep and LoadNgpModel.
std::unique_ptr<RayStep> NewNgpProposalStep(const TrainConfig& config,
                                            const SceneGeometry& geometry, ThreadPool* pool,
                                            std::span<const View> views);
// The same on the current CUDA device, and on request.cuda_device (errors: as Method::NewStep).
std::unique_ptr<RayStep> NewNgpProposalCudaStep(const TrainConfig& config,
                                                const SceneGeometry& geometry, ThreadPool* pool,
                                                std::span<const View> views);
absl::StatusOr<std::unique_ptr<TrainingStep>> NewNgpProposalStepOnDevice(
    const StepRequest& request);
// Renders models of method ngp, also those with proposals, as NewNgpCudaRenderDevice says.
std::unique_ptr<RenderDevice> NewProposalCudaRenderDevice(int index);
absl::StatusOr<std::unique_ptr<TrainedModel>> LoadNgpProposalModel(const TensorFile& file,
                                                                   const TrainConfig& config,
                                                                   const SceneGeometry& geometry);

}  // namespace nerf
