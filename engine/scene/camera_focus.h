#pragma once

#include <optional>
#include <span>

#include "engine/scene/pose.h"

// Where cameras look. Poses and points are of one frame.
namespace nerf {

// The least-squares point closest to all cameras' axes. None if the axes are almost parallel.
std::optional<Vec3d> ClosestPointToAxes(std::span<const Pose> cameras);

// Median distance of the cameras from a point. Requires: there is a camera.
double MedianDistance(std::span<const Pose> cameras, const Vec3d& point);

// Share of the cameras that have the point in front of them, within max_degrees of their axes. 0
// without cameras.
double ShareLookingAt(std::span<const Pose> cameras, const Vec3d& point, double max_degrees);

}  // namespace nerf
