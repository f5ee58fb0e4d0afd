#include "engine/export/mesh/sample_grid.h"

#include <algorithm>
#include <cmath>

#include "engine/scene/own_box.h"

namespace nerf {

SampleGrid SampleGridOver(const Aabb& box, const std::optional<OwnBox>& own_box,
                          const SceneFrame& frame, int resolution) {
  SampleGrid grid;
  Vec3 size = box.Size(), center = box.Center();
  Mat34 to_training;
  if (own_box.has_value()) {
    for (int axis = 0; axis < 3; ++axis) size[axis] = static_cast<float>(own_box->size[axis]);
    center = {0, 0, 0};
    const Mat34 to_own = BoxToOwn(*own_box, frame.origin);
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 4; ++column) {
        const Vec3 of_own = to_own.Column(column);
        const Vec3 mapped = column < 3 ? frame.own_to_training.ApplyToDirection(of_own)
                                       : frame.own_to_training.ApplyToPoint(of_own);
        to_training.m[row][column] = mapped[row];
      }
    }
  }
  const float cell = std::max({size.x, size.y, size.z}) / static_cast<float>(resolution);
  Vec3 first;
  for (int axis = 0; axis < 3; ++axis) {
    // A side that is a whole number of cells long may be a rounding error longer.
    const int n_cells = std::max(1, static_cast<int>(std::ceil(size[axis] / cell - 1e-3f)));
    grid.size[axis] = n_cells + 3;
    first[axis] = center[axis] - cell * (0.5f * static_cast<float>(n_cells) + 1);
  }
  grid.cell = own_box.has_value() ? cell * frame.scale : cell;
  const Vec3 origin = to_training.ApplyToPoint(first);
  for (int row = 0; row < 3; ++row) {
    for (int axis = 0; axis < 3; ++axis)
      grid.to_training.m[row][axis] = to_training.m[row][axis] * cell;
    grid.to_training.m[row][3] = origin[row];
  }
  return grid;
}

}  // namespace nerf
