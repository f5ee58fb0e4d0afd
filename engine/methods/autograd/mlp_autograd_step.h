#pragma once

#include <memory>
#include <optional>
#include <span>

#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/scene.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The step of methods mlp-autograd, t-nerf and d-nerf: the one network of mlp, or a field of such
// networks that depends on time (MlpSettings::time), on an occupancy grid, evaluated and
// differentiated by LibTorch, in fp32 or, with autocast, in bf16. Files are those of mlp, or alike.
// views: those that pixels are drawn from (none: only RunRays may be called). pool outlives the
// step. cuda_device: of LibTorch, where the networks are evaluated; nullopt: the CPU, which
// marches, keeps the grid and the parameters and updates them in either case.
std::unique_ptr<RayStep> NewMlpAutogradStep(const TrainConfig& config,
                                            const SceneGeometry& geometry, ThreadPool* pool,
                                            std::span<const View> views = {},
                                            std::optional<int> cuda_device = {});

}  // namespace nerf
