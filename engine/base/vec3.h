#pragma once

#include <cmath>

#include "engine/base/check.h"

namespace nerf {

// Three floats: a point (scene units), a direction or a color.
struct Vec3 {
  float x = 0, y = 0, z = 0;

  NERF_HD float& operator[](int axis) { return (&x)[axis]; }
  NERF_HD float operator[](int axis) const { return (&x)[axis]; }
  bool operator==(const Vec3&) const = default;
};

NERF_HD inline Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
NERF_HD inline Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
NERF_HD inline Vec3 operator*(Vec3 a, Vec3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
NERF_HD inline Vec3 operator*(Vec3 a, float s) { return {a.x * s, a.y * s, a.z * s}; }
NERF_HD inline Vec3 operator*(float s, Vec3 a) { return a * s; }
NERF_HD inline float Dot(Vec3 a, Vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
NERF_HD inline Vec3 Cross(Vec3 a, Vec3 b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
NERF_HD inline float Norm(Vec3 a) { return std::sqrt(Dot(a, a)); }
// Requires: a is not zero.
NERF_HD inline Vec3 Normalized(Vec3 a) { return a * (1.0f / Norm(a)); }

// Row-major 3x4 affine map: the left 3x3 block is linear, the last column a translation. As a
// camera-to-world matrix its columns are the camera's right, up, backward axes (OpenGL) and its
// center.
struct Mat34 {
  float m[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};

  NERF_HD Vec3 Column(int c) const { return {m[0][c], m[1][c], m[2][c]}; }
  NERF_HD Vec3 ApplyToDirection(Vec3 d) const {
    return {m[0][0] * d.x + m[0][1] * d.y + m[0][2] * d.z,
            m[1][0] * d.x + m[1][1] * d.y + m[1][2] * d.z,
            m[2][0] * d.x + m[2][1] * d.y + m[2][2] * d.z};
  }
  NERF_HD Vec3 ApplyToPoint(Vec3 p) const { return ApplyToDirection(p) + Column(3); }
  bool operator==(const Mat34&) const = default;
};

}  // namespace nerf
