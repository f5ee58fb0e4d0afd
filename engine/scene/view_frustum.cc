#include "engine/scene/view_frustum.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace nerf {
namespace {

constexpr float kMinCosine = 0.26f;  // of corners' rays to the mean of the axes: 75 degrees
constexpr float kMaxSlope = 4;       // wider ones have too few cells for what a picture shows
constexpr size_t kMinPoints = 30;    // of a view; fewer say nothing
constexpr size_t kOutermost = 100;   // one point of this many may lie nearer, and one farther

// The rays through a picture's corners and the middles of its sides: a lens may bend either
// outward.
std::vector<Ray> OutermostRays(const Camera& camera) {
  const auto width = static_cast<float>(camera.width), height = static_cast<float>(camera.height);
  std::vector<Ray> rays;
  for (const float x : {0.0f, 0.5f * width, width}) {
    for (const float y : {0.0f, 0.5f * height, height}) rays.push_back(CameraRay(camera, x, y));
  }
  return rays;
}

}  // namespace

void FindDepths(SceneDescription* description) {
  std::vector<std::vector<float>> depths(description->train.size());
  for (const SeenPoint& point : description->points) {
    const Mat34& pose = description->train[point.view].camera.camera_to_world;
    const float depth = Dot(pose.Column(2), pose.Column(3) - point.position);
    if (depth > 0) depths[point.view].push_back(depth);
  }
  std::vector<float> nearest, farthest;
  for (std::vector<float>& of_view : depths) {
    if (of_view.size() < kMinPoints) continue;
    std::sort(of_view.begin(), of_view.end());
    const size_t n_left_out = (of_view.size() + kOutermost - 1) / kOutermost;
    nearest.push_back(of_view[n_left_out]);
    farthest.push_back(of_view[of_view.size() - 1 - n_left_out]);
  }
  if (nearest.empty()) return;
  description->nearest = *std::min_element(nearest.begin(), nearest.end());
  const auto middle = farthest.begin() + static_cast<std::ptrdiff_t>(farthest.size() / 2);
  std::nth_element(farthest.begin(), middle, farthest.end());
  description->farthest = *middle;
}

bool HoldsFrustum(const Frustum& outer, const Frustum& inner) {
  if (outer.empty() || inner.empty()) return false;
  constexpr float kRounding = 1e-4f;
  const EncodedSpace space{.kind = Contraction::kPerspective, .frustum = outer};
  for (const float x : {-inner.slope, inner.slope}) {
    for (const float y : {-inner.slope, inner.slope}) {
      const Vec3 side = inner.forward + inner.right * x + inner.up * y;
      const Vec3 first = inner.apex + side * inner.near;
      if (!(Dot(side, outer.forward) > 0) ||
          !(Dot(first - outer.apex, outer.forward) >= (1 - kRounding) * outer.near))
        return false;
      for (const Vec3 unit : {space.ToUnit(first), space.HorizonUnit(side)}) {
        if (!(std::abs(unit.x - 0.5f) <= 0.5f + kRounding) ||
            !(std::abs(unit.y - 0.5f) <= 0.5f + kRounding))
          return false;
      }
    }
  }
  return true;
}

Frustum FrustumOfViews(const SceneDescription& description) {
  const float near = kNearOfNearest * description.nearest;
  if (!(near > 0) || description.train.size() < 2) return {};
  Vec3 position, backward, up;
  for (const ViewDescription& view : description.train) {
    const Mat34& pose = view.camera.camera_to_world;
    position = position + pose.Column(3);
    backward = backward + pose.Column(2);
    up = up + pose.Column(1);
  }
  if (!(Norm(backward) > 0)) return {};
  Frustum frustum;
  frustum.apex = position * (1 / static_cast<float>(description.train.size()));
  frustum.forward = Normalized(backward) * -1;
  frustum.right = Cross(frustum.forward, up);
  // Pictures that are turned against each other, as of a drone that flies back and forth, have no
  // up.
  for (int axis = 0; axis < 3 && !(Norm(frustum.right) > 0.1f); ++axis) {
    Vec3 any;
    any[axis] = 1;
    frustum.right = Cross(frustum.forward, any);
  }
  frustum.right = Normalized(frustum.right);
  frustum.up = Cross(frustum.right, frustum.forward);

  std::vector<Ray> rays;
  for (const ViewDescription& view : description.train) {
    for (const Ray& ray : OutermostRays(view.camera)) rays.push_back(ray);
  }
  float begin = near;
  for (const Ray& ray : rays) {
    const float cosine = Dot(ray.direction, frustum.forward);
    if (!(cosine >= kMinCosine)) return {};
    begin = std::min(begin, Dot(ray.origin - frustum.apex, frustum.forward) + near * cosine);
  }
  if (!(begin > 0)) return {};
  // The widest places are where rays begin, or infinitely far away.
  for (const Ray& ray : rays) {
    const Vec3 first = ray.origin + ray.direction * near - frustum.apex;
    for (const Vec3 place : {first, ray.direction}) {
      const float depth = Dot(place, frustum.forward);
      frustum.slope = std::max({frustum.slope, std::abs(Dot(place, frustum.right)) / depth,
                                std::abs(Dot(place, frustum.up)) / depth});
    }
  }
  if (!(frustum.slope <= kMaxSlope)) return {};
  frustum.near = begin;
  return frustum;
}

}  // namespace nerf
