#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/tensor_file.h"
#include "engine/scene/scene.h"
#include "engine/train/ray_step.h"

namespace nerf {

// Trains the fields of all tiles together. Rays march through one occupancy grid; each sample asks
// the field of the tile that its middle lies in; transmittance, color and loss are of the whole
// ray. So a tile learns from what it adds to the pixels, and from nothing outside its box. The
// tiles share no parameters. Source of the idea: Li et al. 2024, "NeRF-XL".
// Cuts as NewTiledStep. pool outlives the step.
std::unique_ptr<RayStep> NewJointTileStep(const TrainConfig& config, const SceneGeometry& geometry,
                                          const Scene& scene, ThreadPool* pool);

// The model of such a training's model or checkpoint file. Errors: InvalidArgument naming the
// tensor.
absl::StatusOr<std::unique_ptr<TrainedModel>> LoadJointTiles(const TensorFile& file,
                                                             const TrainConfig& config,
                                                             const SceneGeometry& geometry);

}  // namespace nerf
