#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/trained_model.h"
#include "engine/scene/scene.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The step of method mlp: one network on an occupancy grid, or, with coarse_samples, coarse and
// fine. views: those that pixels are drawn from (none: only RunRays may be called). pool outlives
// the step.
std::unique_ptr<RayStep> NewMlpGridStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        std::span<const View> views, ThreadPool* pool);
std::unique_ptr<RayStep> NewMlpPairStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        std::span<const View> views, ThreadPool* pool);

// Their models, and those of methods through LibTorch. parameters: of each network.
std::unique_ptr<TrainedModel> NewMlpGridModel(const TrainConfig& config,
                                              const SceneGeometry& geometry,
                                              std::vector<Buffer<float>> parameters,
                                              OccupancyGrid grid);
std::unique_ptr<TrainedModel> NewMlpPairModel(const TrainConfig& config,
                                              const SceneGeometry& geometry,
                                              std::vector<Buffer<float>> parameters);

}  // namespace nerf
