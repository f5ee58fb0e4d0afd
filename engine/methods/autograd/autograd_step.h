#pragma once

#include <memory>
#include <optional>
#include <span>

#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/scene.h"
#include "engine/train/group/group.h"
#include "engine/train/ray_step.h"

namespace nerf {

// The training step of method `ngp-autograd`: field, samples, optimizer and files as in method
// `ngp`, with densities, colors, compositing and loss in LibTorch operations and gradients by its
// autograd. Slow and simple: the test oracle of the fused step, and the place for experiments.
// `pool` and `group` outlive the step; LibTorch uses as many threads as the pool has. Results are
// reproducible for a fixed number of threads only, because LibTorch splits sums by thread.
// With a group its ranks train together (data-parallel): each takes a range of the rays, all
// gradients are added up by an all-reduce (gradient_sum.h), and every rank has the whole state.
// They then train what one process does, but for the rounding of sums. cuda_device: as
// NewMlpAutogradStep has it.
std::unique_ptr<RayStep> NewAutogradStep(const TrainConfig& config, const SceneGeometry& geometry,
                                         ThreadPool* pool, std::span<const View> views = {},
                                         Group* group = nullptr,
                                         std::optional<int> cuda_device = {});

}  // namespace nerf
