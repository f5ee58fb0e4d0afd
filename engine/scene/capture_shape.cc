#include "engine/scene/capture_shape.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace nerf {
namespace {

// Cosine of the largest angle between a camera's axis and the direction to the center, 60 degrees:
// at larger angles the center is at the picture's edge or outside.
constexpr float kMinCosine = 0.5f;
// Horizontal over total distance from the center. A camera closer to the vertical axis has no side.
constexpr float kMinRadiusFraction = 0.05f;
// Largest angle between neighboring cameras as seen from above. It is 60 degrees for six cameras
// around an object and 180 for half a circle.
constexpr float kMaxGap = 2 * std::numbers::pi_v<float> / 3;

}  // namespace

bool IsSeenFromAllSides(const SceneDescription& description) {
  const Vec3 up = Normalized(description.geometry.mean_up);
  const Vec3 axis = std::abs(up.x) < 0.7f ? Vec3{1, 0, 0} : Vec3{0, 1, 0};
  const Vec3 first = Normalized(Cross(up, axis));
  const Vec3 second = Cross(up, first);
  std::vector<float> angles;
  for (const ViewDescription& view : description.train) {
    const Mat34& pose = view.camera.camera_to_world;
    const Vec3 from_center = pose.Column(3) - description.geometry.box.Center();
    const float distance = Norm(from_center);
    if (Dot(pose.Column(2), from_center) < kMinCosine * distance) continue;
    const float x = Dot(from_center, first), y = Dot(from_center, second);
    if (std::hypot(x, y) <= kMinRadiusFraction * distance) continue;
    angles.push_back(std::atan2(y, x));
  }
  if (angles.empty()) return false;
  std::sort(angles.begin(), angles.end());
  float gap = angles.front() + 2 * std::numbers::pi_v<float> - angles.back();
  for (size_t i = 1; i < angles.size(); ++i) gap = std::max(gap, angles[i] - angles[i - 1]);
  return gap < kMaxGap;
}

}  // namespace nerf
