#pragma once

#include <array>
#include <span>

#include "engine/scene/scene.h"

namespace nerf {

// Double precision until placement is done: captures in map coordinates lie millions of units from
// the origin.
using Vec3d = std::array<double, 3>;

// Camera-to-world, OpenGL axes, rows. The rotation is orthonormal.
struct Pose {
  double m[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};
};

// x -> scale * rotation * x + translation. rotation: orthonormal rows.
struct Similarity {
  double scale = 1;
  double rotation[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  Vec3d translation = {0, 0, 0};

  Vec3d ApplyToPoint(const Vec3d& point) const;
  Pose ApplyToPose(const Pose& pose) const;
};

// inner first, then outer.
Similarity Compose(const Similarity& outer, const Similarity& inner);

// The similarity that a SceneFrame stores, and back.
SceneFrame ToSceneFrame(const Similarity& similarity);
Similarity FromSceneFrame(const SceneFrame& frame);
Similarity Inverse(const Similarity& similarity);

Mat34 ToMat34(const Pose& pose);
Pose ToPose(const Mat34& matrix);

// Makes an almost orthonormal rotation exactly so, keeping the viewing axis. `uniform_scale`: mean
// length of its columns. False when it is none: zero, mirrored, or more than 1 % sheared or
// unequally scaled.
bool Orthonormalize(Pose* pose, double* uniform_scale);

// Instant-ngp's: scale * own + offset, then the axes cycled (x, y, z) <- (y, z, x).
Similarity NgpPlacement(double scale, const Vec3d& offset);

// COLMAP's y-down world to z-up, as nerfstudio does: (x, y, z) -> (x, z, -y).
Similarity ColmapWorldToZUp();

// Nerfstudio's: mean camera up to +z by the shortest rotation, mean position to the origin, largest
// coordinate of any position to 1. The rotation is left out when the cameras have no common up, the
// scale when all stand at one place.
Similarity NormalizingPlacement(std::span<const Pose> poses);

}  // namespace nerf
