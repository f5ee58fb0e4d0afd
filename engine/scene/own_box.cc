#include "engine/scene/own_box.h"

#include <cmath>

namespace nerf {

Mat34 BoxToOwn(const OwnBox& box, const Vec3d& origin) {
  double length = 0;
  for (const double number : box.turn) length += number * number;
  length = std::sqrt(length);
  const double x = box.turn[0] / length, y = box.turn[1] / length, z = box.turn[2] / length,
               w = box.turn[3] / length;
  const Vec3d center = Difference({box.center[0], box.center[1], box.center[2]}, origin);
  const double rows[3][4] = {
      {1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), center[0]},
      {2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), center[1]},
      {2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), center[2]}};
  Mat34 matrix;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column)
      matrix.m[row][column] = static_cast<float>(rows[row][column]);
  }
  return matrix;
}

CropBox ToTrainingFrame(const OwnBox& box, const SceneFrame& frame) {
  const Mat34 to_own = BoxToOwn(box, frame.origin);
  CropBox crop;
  crop.center = frame.own_to_training.ApplyToPoint(to_own.Column(3));
  for (int axis = 0; axis < 3; ++axis) {
    const double half_side = 0.5 * box.size[axis] * frame.scale;
    // Of length 1 but for the scale.
    const Vec3 along = frame.own_to_training.ApplyToDirection(to_own.Column(axis));
    crop.axes[axis] = along * static_cast<float>(1 / (frame.scale * half_side));
  }
  return crop;
}

Mat34 ToBox(const OwnBox& box, const SceneFrame& frame) {
  const CropBox crop = ToTrainingFrame(box, frame);
  Mat34 to_box;
  for (int axis = 0; axis < 3; ++axis) {
    const Vec3 along = crop.axes[axis] * static_cast<float>(0.5 * box.size[axis]);
    for (int column = 0; column < 3; ++column) to_box.m[axis][column] = along[column];
    to_box.m[axis][3] = -Dot(along, crop.center);
  }
  return to_box;
}

}  // namespace nerf
