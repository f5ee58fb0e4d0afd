#include "engine/export/files/file_splats.h"

#include <algorithm>

namespace nerf {
namespace {

// The rotation of a splat in the axes of a file, whose columns are those of the training frame.
// Its own axes may point either way, so that one is turned around where the file's are mirrored.
Quaternion TurnedRotation(const float* rotation, const Vec3 (&columns)[3], bool is_mirrored) {
  Mat34 own, turned;
  SetRotation({rotation[0], rotation[1], rotation[2], rotation[3]}, &own);
  for (int axis = 0; axis < 3; ++axis) {
    const Vec3 from = own.Column(axis);
    const Vec3 to = (columns[0] * from.x + columns[1] * from.y + columns[2] * from.z) *
                    (is_mirrored && axis == 2 ? -1.0f : 1.0f);
    for (int row = 0; row < 3; ++row) turned.m[row][axis] = to[row];
  }
  return QuaternionOf(turned);
}

}  // namespace

FileSplats::FileSplats(const SplatCloud& cloud, const ExportAxes& axes)
    : cloud_(cloud),
      axes_(axes),
      columns_{axes.Direction({1, 0, 0}), axes.Direction({0, 1, 0}), axes.Direction({0, 0, 1})},
      turn_(cloud.degree, columns_[0], columns_[1], columns_[2]) {}

FileSplat FileSplats::At(size_t i) const {
  const float* const row = cloud_.row(i);
  const WidenedSplat widened = Widened(row, cloud_.widths[i]);
  FileSplat splat;
  splat.position = axes_.Point({row[0], row[1], row[2]});
  for (int axis = 0; axis < 3; ++axis) splat.scale[axis] = axes_.Length(widened.scale[axis]);
  splat.rotation = TurnedRotation(row + SplatCloud::kRotation, columns_, axes_.is_mirrored());
  splat.opacity = std::min(widened.opacity, kMaxSplatOpacity);
  for (int channel = 0; channel < 3; ++channel)
    turn_.Apply(row + SplatCloud::kColor + channel, 3, splat.colors + channel);
  return splat;
}

}  // namespace nerf
