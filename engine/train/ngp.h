#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/training_step.h"

namespace nerf {

// The fused step of method `ngp` on the CPU. pool outlives it.
std::unique_ptr<TrainingStep> NewFusedHashGridStep(const TrainConfig& config,
                                                   const SceneGeometry& geometry, ThreadPool* pool);

// Bytes that such a step will allocate, for the estimate before the first allocation.
size_t FusedHashGridStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                              int n_threads);

// The field and grid of a model or checkpoint file of method `ngp`, trained with `config`. A
// checkpoint's evaluation weights are rounded as a model's are, so that both render the same bytes.
// Errors: InvalidArgument naming the tensor.
absl::StatusOr<TrainedModel> LoadNgpModel(const TensorFile& file, const TrainConfig& config,
                                          const SceneGeometry& geometry);

}  // namespace nerf
