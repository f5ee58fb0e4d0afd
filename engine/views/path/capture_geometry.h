#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/base/vec3.h"

namespace nerf {

// What paths need of a photograph's camera: its pose, and its footprint, the part of the plane at
// distance 1 that the picture shows. All cameras of a capture are in one frame, which may be any.
struct CaptureCamera {
  Mat34 camera_to_world;  // OpenGL axes: +X right, +Y up, looks along -Z
  float left = -0.5f, right = 0.5f, bottom = -0.5f, top = 0.5f;

  Vec3 position() const { return camera_to_world.Column(3); }
  Vec3 forward() const { return camera_to_world.Column(2) * -1.0f; }
  Vec3 up() const { return camera_to_world.Column(1); }
};

// Whether the point projects into the camera's picture. Occlusion is not considered.
bool Sees(const CaptureCamera& camera, Vec3 point);

// The point that is closest to all lines of sight; nullopt where they are parallel, or where it
// lies behind most cameras.
std::optional<Vec3> FocusOf(std::span<const CaptureCamera> cameras);

// Up, of length 1, in the first of these ways that applies:
//   file_up, the +Z of a file whose format means it, where it agrees with the cameras' own up to 60
//     degrees, or where all cameras look down it, as a drone's do;
//   ground, the normal of the surface below cameras that all look straight at it;
//   the mean of the cameras' up vectors; {0, 0, 1} where they have none in common.
// `ground` is either way up, of length 1; unset where what was seen is no plane.
Vec3 UpOf(std::span<const CaptureCamera> cameras, std::optional<Vec3> file_up,
          std::optional<Vec3> ground);

// The normal of the plane that the points lie in; nullopt unless their spread along it is less than
// a fifth of that across it.
std::optional<Vec3> PlaneNormalOf(std::span<const Vec3> points);

// Whether the cameras stand all around `center` about `up` and look its way: no gap of 120 degrees.
bool GoAround(std::span<const CaptureCamera> cameras, Vec3 center, Vec3 up);

}  // namespace nerf
