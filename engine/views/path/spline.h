#pragma once

#include <span>
#include <vector>

#include "engine/base/vec3.h"

namespace nerf {

// n poses, evenly spaced in the keyframes' number, on a curve through all of them: centripetal
// Catmull-Rom for positions, so that it neither loops nor overshoots between close keyframes, and
// the shortest turn between rotations, eased alike. A closed curve leads from the last keyframe to
// the first and does not repeat it. Of one keyframe: n times it. Requires: keyframes, n >= 0.
std::vector<Mat34> SplineThrough(std::span<const Mat34> keyframes, int n, bool is_closed);

// The rotation from quaternion (w, x, y, z), of any length but 0, and back; of length 1.
struct Quaternion {
  float w = 1, x = 0, y = 0, z = 0;
};
Quaternion QuaternionOf(const Mat34& pose);
void SetRotation(const Quaternion& q, Mat34* pose);

// The shortest turn, t in [0, 1].
Quaternion Slerp(const Quaternion& a, const Quaternion& b, float t);

}  // namespace nerf
