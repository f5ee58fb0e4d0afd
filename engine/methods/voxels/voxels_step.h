#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/trained_model.h"
#include "engine/scene/scene.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The step of method voxels on the CPU. views: those that pixels are drawn from (none: only RunRays
// may be called). pool outlives the step.
std::unique_ptr<RayStep> NewVoxelsStep(const TrainConfig& config, const SceneGeometry& geometry,
                                       std::span<const View> views, ThreadPool* pool);

// The model in a model or checkpoint file. Errors: InvalidArgument naming the tensor.
absl::StatusOr<std::unique_ptr<TrainedModel>> LoadVoxelsModel(const TensorFile& file,
                                                              const TrainConfig& config,
                                                              const SceneGeometry& geometry);

}  // namespace nerf
