#pragma once

#include <cmath>

#include "engine/scene/pose.h"

namespace nerf {

// A camera at `from` that looks at `at`, +Z up, with OpenGL's axes.
inline Pose LookingAt(const Vec3d& from, const Vec3d& at) {
  Vec3d back;
  double length = 0;
  for (int i = 0; i < 3; ++i) length += std::pow(from[i] - at[i], 2);
  for (int i = 0; i < 3; ++i) back[i] = (from[i] - at[i]) / std::sqrt(length);
  const double across = std::hypot(back[0], back[1]);
  const Vec3d right = {-back[1] / across, back[0] / across, 0};
  const Vec3d up = {back[1] * right[2] - back[2] * right[1],
                    back[2] * right[0] - back[0] * right[2],
                    back[0] * right[1] - back[1] * right[0]};
  Pose pose;
  for (int i = 0; i < 3; ++i) {
    pose.m[i][0] = right[i];
    pose.m[i][1] = up[i];
    pose.m[i][2] = back[i];
    pose.m[i][3] = from[i];
  }
  return pose;
}

}  // namespace nerf
