#pragma once

#include <memory>

#include "engine/base/parallel_for.h"
#include "engine/config/train_config.h"
#include "engine/scene/scene.h"
#include "engine/train/training_step.h"

namespace nerf {

// The step of method `ngp-autograd`: the field, samples, optimizer and files of method `ngp`, with
// densities, colors, compositing and loss in LibTorch operations and gradients by its autograd.
// Slow and plain: the oracle of the fused step, and the place to try what that cannot do yet. pool
// outlives it; LibTorch takes as many threads as it has. Equal state and batch give equal bytes for
// one number of threads, not across numbers: LibTorch splits sums by thread.
std::unique_ptr<TrainingStep> NewAutogradStep(const TrainConfig& config,
                                              const SceneGeometry& geometry, ThreadPool* pool);

}  // namespace nerf
