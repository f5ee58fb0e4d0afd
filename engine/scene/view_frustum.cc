#include "engine/scene/view_frustum.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace nerf {
namespace {

constexpr float kMinCosine = 0.26f;  // of corners' rays to the mean of the axes: 75 degrees
constexpr float kMaxSlope = 4;       // wider ones have too few cells for what a picture shows
constexpr size_t kMinPoints = 30;    // fewer say nothing
constexpr size_t kOutermost = 100;   // one point of this many may lie nearer, and one farther

// The rays through a picture's corners.
std::vector<Ray> CornerRays(const Camera& camera) {
  std::vector<Ray> rays;
  for (const int x : {0, camera.width}) {
    for (const int y : {0, camera.height})
      rays.push_back(CameraRay(camera, static_cast<float>(x), static_cast<float>(y)));
  }
  return rays;
}

}  // namespace

void FindDepths(SceneDescription* description) {
  std::vector<float> depths;
  for (const SeenPoint& point : description->points) {
    const Mat34& pose = description->train[point.view].camera.camera_to_world;
    const float depth = Dot(pose.Column(2), pose.Column(3) - point.position);
    if (depth > 0) depths.push_back(depth);
  }
  if (depths.size() < kMinPoints) return;
  std::sort(depths.begin(), depths.end());
  const size_t n_left_out = depths.size() / kOutermost;
  description->nearest = depths[n_left_out];
  description->farthest = depths[depths.size() - 1 - n_left_out];
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
  if (!(Norm(frustum.right) > 1e-3f * Norm(up))) return {};
  frustum.right = Normalized(frustum.right);
  frustum.up = Cross(frustum.right, frustum.forward);

  std::vector<Ray> rays;
  for (const ViewDescription& view : description.train) {
    for (const Ray& ray : CornerRays(view.camera)) rays.push_back(ray);
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
