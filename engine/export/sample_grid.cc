#include "engine/export/sample_grid.h"

#include <algorithm>
#include <cmath>

namespace nerf {

SampleGrid SampleGridOver(const Aabb& box, bool own_box, const SceneFrame& frame, int resolution) {
  SampleGrid grid;
  const Vec3 size = box.Size();
  const float cell = std::max({size.x, size.y, size.z}) / static_cast<float>(resolution);
  Mat34 to_box;
  for (int axis = 0; axis < 3; ++axis) {
    // A side that is a whole number of cells long may be a rounding error longer.
    const int n_cells = std::max(1, static_cast<int>(std::ceil(size[axis] / cell - 1e-3f)));
    grid.size[axis] = n_cells + 3;
    to_box.m[axis][axis] = cell;
    const float middle = 0.5f * (box.min[axis] + box.max[axis]);
    to_box.m[axis][3] = middle - cell * (0.5f * static_cast<float>(n_cells) + 1);
  }
  grid.cell = own_box ? cell * frame.scale : cell;
  if (!own_box) {
    grid.to_training = to_box;
    return grid;
  }
  const Mat34& own = frame.own_to_training;
  const Vec3 origin = own.ApplyToPoint(to_box.Column(3));
  for (int row = 0; row < 3; ++row) {
    for (int axis = 0; axis < 3; ++axis) grid.to_training.m[row][axis] = own.m[row][axis] * cell;
    grid.to_training.m[row][3] = origin[row];
  }
  return grid;
}

}  // namespace nerf
