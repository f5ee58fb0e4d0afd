#pragma once

#include <array>
#include <cmath>
#include <utility>

// Directions in a model's frame.
namespace nerf {

using PoseVector = std::array<double, 3>;

inline double Dot(const PoseVector& a, const PoseVector& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

inline PoseVector Minus(const PoseVector& a, const PoseVector& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

// Two unit vectors perpendicular to the unit vector `up` and to each other.
inline std::pair<PoseVector, PoseVector> PerpendicularAxes(const PoseVector& up) {
  const PoseVector other = std::abs(up[0]) < 0.9 ? PoseVector{1, 0, 0} : PoseVector{0, 1, 0};
  const auto cross = [](const PoseVector& a, const PoseVector& b) {
    return PoseVector{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                      a[0] * b[1] - a[1] * b[0]};
  };
  PoseVector right = cross(other, up);
  const double length = std::hypot(right[0], right[1], right[2]);
  for (double& r : right) r /= length;
  return {right, cross(up, right)};
}

}  // namespace nerf
