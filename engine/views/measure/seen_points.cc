#include "engine/views/measure/seen_points.h"

#include <algorithm>
#include <cmath>

namespace nerf {
namespace {

constexpr float kDepthTolerance = 0.03f;  // of the distance
constexpr float kMinCosineOfSeen = 0.7f;  // between the directions from which a point is seen
constexpr float kMaxBeyond = 0.5f;        // of a picture's side; farther out, distortion folds back

// Whether `other` sees what a ray along `direction` shows.
bool Sees(const DepthView& other, Vec3 point, Vec3 direction) {
  float x, y;
  const Vec3 theirs = point - other.camera.camera_to_world.Column(3);
  const float distance = Norm(theirs);
  if (Dot(theirs, direction) < kMinCosineOfSeen * distance) return false;
  if (!ProjectPoint(other.camera, point, &x, &y)) return false;
  const int column = static_cast<int>(x), row = static_cast<int>(y);
  const Camera& camera = other.camera;
  for (int dy = std::max(0, row - 1); dy <= std::min(camera.height - 1, row + 1); ++dy) {
    for (int dx = std::max(0, column - 1); dx <= std::min(camera.width - 1, column + 1); ++dx) {
      const float shown = other.depths[static_cast<size_t>(dy) * camera.width + dx];
      if (shown == 0 || shown >= (1 - kDepthTolerance) * distance) return true;
    }
  }
  return false;
}

}  // namespace

bool CanProject(const Camera& camera) {
  return camera.lens == LensModel::kPinhole || camera.lens == LensModel::kOpenCv;
}

bool ProjectPoint(const Camera& camera, Vec3 point, float* x, float* y) {
  const Mat34& pose = camera.camera_to_world;
  const Vec3 offset = point - pose.Column(3);
  const float depth = -Dot(offset, pose.Column(2));
  if (!(depth > 0)) return false;
  float u = Dot(offset, pose.Column(0)) / depth, v = -Dot(offset, pose.Column(1)) / depth;
  const auto within = [](float at, int size, float beyond) {
    const float limit = static_cast<float>(size);
    return at >= -beyond * limit && at < (1 + beyond) * limit;
  };
  if (!within(camera.fl_x * u + camera.cx, camera.width, kMaxBeyond)) return false;
  if (!within(camera.fl_y * v + camera.cy, camera.height, kMaxBeyond)) return false;
  if (camera.lens == LensModel::kOpenCv) Distort(camera, u, v, &u, &v);
  *x = camera.fl_x * u + camera.cx;
  *y = camera.fl_y * v + camera.cy;
  return within(*x, camera.width, 0) && within(*y, camera.height, 0);
}

Vec3 ShownPoint(const DepthView& view, int x, int y) {
  const Ray ray =
      CameraRay(view.camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
  return ray.origin + ray.direction * view.depths[static_cast<size_t>(y) * view.camera.width + x];
}

std::vector<uint8_t> CountSeeing(const DepthView& view, std::span<const DepthView> others,
                                 int enough) {
  std::vector<uint8_t> counts(view.depths.size(), static_cast<uint8_t>(enough));
  for (size_t i = 0; i < counts.size(); ++i) {
    if (view.depths[i] == 0) continue;
    const int width = view.camera.width, pixel = static_cast<int>(i);
    const Vec3 point = ShownPoint(view, pixel % width, pixel / width);
    const Vec3 direction = Normalized(point - view.camera.camera_to_world.Column(3));
    int n = 0;
    for (size_t k = 0; k < others.size() && n < enough; ++k)
      n += Sees(others[k], point, direction) ? 1 : 0;
    counts[i] = static_cast<uint8_t>(n);
  }
  return counts;
}

}  // namespace nerf
