#include "engine/base/messages/pose_message.h"

namespace nerf {

Vec3d PlaceOf(const PoseNumbers& pose) { return {pose[3], pose[7], pose[11]}; }

Mat34 ReadPose(const PoseNumbers& pose, const Vec3d& origin) {
  Mat34 read;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column)
      read.m[row][column] = static_cast<float>(pose[4 * row + column]);
    read.m[row][3] = static_cast<float>(pose[4 * row + 3] - origin[row]);
  }
  return read;
}

void WritePose(const Mat34& pose, const Vec3d& origin, PoseNumbers* to) {
  to->Clear();
  for (int row = 0; row < 3; ++row) {
    const auto& numbers = pose.m[row];
    for (int column = 0; column < 3; ++column) to->Add(numbers[column]);
    to->Add(origin[row] == 0 ? numbers[3] : numbers[3] + origin[row]);  // keeps -0
  }
  for (const double number : {0.0, 0.0, 0.0, 1.0}) to->Add(number);
}

}  // namespace nerf
