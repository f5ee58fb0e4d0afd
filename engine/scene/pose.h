#pragma once

#include <span>

#include "engine/base/local_origin.h"
#include "engine/scene/scene.h"

namespace nerf {

// Camera-to-world, OpenGL axes, rows. The rotation is orthonormal. Double precision until views are
// placed.
struct Pose {
  double m[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};
  bool operator==(const Pose&) const = default;

  Vec3d position() const { return {m[0][3], m[1][3], m[2][3]}; }
  void set_position(const Vec3d& to) {
    for (size_t i = 0; i < 3; ++i) m[i][3] = to[i];
  }
};

// x -> scale * rotation * x + translation. rotation: orthonormal rows.
struct Similarity {
  double scale = 1;
  double rotation[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  Vec3d translation = {0, 0, 0};

  Vec3d ApplyToPoint(const Vec3d& point) const;
  Pose ApplyToPose(const Pose& pose) const;
};

// Applies inner, then outer.
Similarity Compose(const Similarity& outer, const Similarity& inner);

// The similarity that a SceneFrame stores, without its origin, and back.
SceneFrame ToSceneFrame(const Similarity& similarity);
Similarity FromSceneFrame(const SceneFrame& frame);
Similarity Inverse(const Similarity& similarity);

Mat34 ToMat34(const Pose& pose);
Pose ToPose(const Mat34& matrix);

// Orthonormalizes the rotation, keeping the viewing axis. *uniform_scale is the mean length of its
// columns. False if it is not a scaled rotation: zero, mirrored, or more than 1% sheared or
// unequally scaled.
bool Orthonormalize(Pose* pose, double* uniform_scale);

// Instant-ngp's placement: scale * own + offset, then the axes permuted, (x, y, z) <- (y, z, x).
Similarity NgpPlacement(double scale, const Vec3d& offset);

// COLMAP's y-down world to z-up, as nerfstudio does: (x, y, z) -> (x, z, -y).
Similarity ColmapWorldToZUp();

// Nerfstudio's placement: mean camera up to +z by the smallest rotation, mean position to the
// origin, largest coordinate of any position to 1. No rotation if the cameras' mean up is zero; no
// scaling if all positions are equal.
Similarity NormalizingPlacement(std::span<const Pose> poses);

}  // namespace nerf
