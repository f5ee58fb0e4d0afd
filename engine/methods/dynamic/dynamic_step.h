#pragma once

#include <memory>
#include <span>

#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/scene.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The step of method dynamic on the CPU. views: those that pixels are drawn from (none: only
// RunRays may be called). pool outlives the step.
std::unique_ptr<RayStep> NewDynamicStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        std::span<const View> views, ThreadPool* pool);

}  // namespace nerf
