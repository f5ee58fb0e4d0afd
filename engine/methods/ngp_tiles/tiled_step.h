#pragma once

#include <memory>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/base/parallel_for.h"
#include "engine/methods/ngp_tiles/tile_cuts.h"
#include "engine/scene/scene.h"
#include "engine/train/training_step.h"

namespace nerf {

// Tiles at the medians of what the cameras see: of the scene's points or, where it has few, of
// points anywhere on the cameras' rays in the level-0 box. A pure function of the arguments.
TileCuts CutsOf(const TrainConfig& config, const SceneGeometry& geometry, const Scene& scene);

// Trains the fields of all tiles independently of each other, one step of one tile after another.
// Each is trained on the rays that meet its box with a margin; it learns all that these rays show,
// and views take from it what lies in its box. Source of the idea: Turki et al. 2022, "Mega-NeRF".
// With setting `tile` one of them is trained, to the bytes that it has where all are.
// The cuts are found from `scene`; Load and Initialize take the file's. pool outlives the step.
// on_cuda: the tiles' steps run on the CUDA device in use.
std::unique_ptr<TrainingStep> NewTiledStep(const TrainConfig& config, const SceneGeometry& geometry,
                                           const Scene& scene, ThreadPool* pool,
                                           bool on_cuda = false);

}  // namespace nerf
