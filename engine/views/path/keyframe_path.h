#pragma once

#include <span>
#include <vector>

#include "engine/base/vec3.h"

namespace nerf {

// A camera that a path passes through, and each camera of the path.
struct PathCamera {
  Mat34 camera_to_world;
  float fov_degrees = 50;  // vertical
};

// n cameras on the curve through the keyframes (SplineThrough). The field of view follows a cubic
// through those of the keyframes, limited to the range between the two that are next to it.
// Requires: keyframes, n >= 0.
std::vector<PathCamera> ExpandKeyframes(std::span<const PathCamera> keyframes, int n,
                                        bool is_closed);

}  // namespace nerf
