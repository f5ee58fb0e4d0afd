#pragma once

#include <optional>

#include "engine/base/aabb.h"
#include "engine/base/view_style.h"
#include "engine/scene/scene.h"

namespace nerf {

// Points in rows, columns and layers, at which a field is asked.
struct SampleGrid {
  Mat34 to_training;  // from (x, y, z), the number of a point along each axis, to its place
  int size[3] = {0, 0, 0};
  float cell = 0;  // between two points, training units

  Vec3 PointAt(int x, int y, int z) const {
    return to_training.ApplyToPoint(
        {static_cast<float>(x), static_cast<float>(y), static_cast<float>(z)});
  }
};

// A grid over `box` with `resolution` cells along its longest side, and a cell beyond the box on
// each side, or over `own_box` in its place. box: training frame. Requires: the box has a volume.
SampleGrid SampleGridOver(const Aabb& box, const std::optional<OwnBox>& own_box,
                          const SceneFrame& frame, int resolution);

}  // namespace nerf
