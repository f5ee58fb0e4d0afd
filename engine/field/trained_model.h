#pragma once

#include <memory>

#include "engine/field/occupancy_grid.h"
#include "engine/field/radiance_field.h"

namespace nerf {

// A trained field with its occupancy grid, rounded as model files are.
struct TrainedModel {
  std::unique_ptr<RadianceField> field;
  OccupancyGrid grid;
};

}  // namespace nerf
