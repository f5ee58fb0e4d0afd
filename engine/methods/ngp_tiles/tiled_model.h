#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/field/marched_model.h"
#include "engine/field/occupancy_grid.h"
#include "engine/methods/ngp_tiles/tile_cuts.h"
#include "engine/scene/scene.h"

namespace nerf {

// How far tiles reach over their cuts, in training units.
float TileMargin(const TrainConfig& config, const SceneGeometry& geometry);

// A grid with the cells that are occupied in a tile which reaches their block of 4x4x4 cells.
// grids: of the tiles, all of one shape.
OccupancyGrid MergeTileGrids(const TileCuts& cuts, float margin,
                             std::span<const OccupancyGrid* const> grids);

// The cuts between the tiles of a model: none where it has one tile alone, whose views show all
// that it has learned, beyond its box, too.
TileCuts ShownCuts(const TileCuts& cuts, const TrainConfig& config);

// The tiles' models as one. models: in order, of method ngp.
std::unique_ptr<TrainedModel> NewTiledModel(const TileCuts& cuts, const TrainConfig& config,
                                            const SceneGeometry& geometry,
                                            std::vector<std::unique_ptr<TrainedModel>> models);

}  // namespace nerf
