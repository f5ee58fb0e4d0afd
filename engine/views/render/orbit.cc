#include "engine/views/render/orbit.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nerf {
namespace {

// Share of the distance: a camera straight above the center has no circle.
constexpr float kMaxHeightFraction = 0.95f;

// Right, up, backward columns of a camera at `position` that looks at `target`.
Mat34 LookAt(Vec3 position, Vec3 target, Vec3 up) {
  const Vec3 backward = Normalized(position - target);
  const Vec3 right = Normalized(Cross(up, backward));
  const Vec3 camera_up = Cross(backward, right);
  Mat34 pose;
  for (int row = 0; row < 3; ++row) {
    pose.m[row][0] = right[row];
    pose.m[row][1] = camera_up[row];
    pose.m[row][2] = backward[row];
    pose.m[row][3] = position[row];
  }
  return pose;
}

}  // namespace

std::vector<Camera> OrbitCameras(const SceneGeometry& geometry, Vec3 center,
                                 const Camera& intrinsics, int n) {
  const float up_norm = Norm(geometry.mean_up);
  const Vec3 up = up_norm > 1e-6f ? geometry.mean_up * (1.0f / up_norm) : Vec3{0, 0, 1};
  float distance = geometry.median_distance;
  if (!(distance > 1e-6f)) distance = 0.5f * geometry.box.Diagonal();
  const float max_height = kMaxHeightFraction * distance;
  const float height = std::clamp(geometry.median_height, -max_height, max_height);
  const float radius = std::sqrt(distance * distance - height * height);

  // The axis in which `up` is smallest gives the most stable first direction.
  int least = 0;
  for (int axis = 1; axis < 3; ++axis) {
    if (std::abs(up[axis]) < std::abs(up[least])) least = axis;
  }
  Vec3 axis_vector{0, 0, 0};
  axis_vector[least] = 1;
  const Vec3 first = Normalized(axis_vector - up * Dot(axis_vector, up));
  const Vec3 second = Cross(up, first);

  std::vector<Camera> cameras;
  cameras.reserve(static_cast<size_t>(std::max(n, 0)));
  for (int i = 0; i < n; ++i) {
    const float angle =
        2 * std::numbers::pi_v<float> * static_cast<float>(i) / static_cast<float>(n);
    const Vec3 around = first * std::cos(angle) + second * std::sin(angle);
    Camera camera = intrinsics;
    camera.camera_to_world = LookAt(center + up * height + around * radius, center, up);
    cameras.push_back(camera);
  }
  return cameras;
}

}  // namespace nerf
