#include "engine/views/path/capture_geometry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/base/principal_axes.h"

namespace nerf {
namespace {

constexpr float kOneWayDirections = 0.85f;  // length of the mean of unit vectors that point one way
constexpr float kMaxTilt = 0.5f;    // cosine of 60 degrees, of a file's +Z from the cameras' up
constexpr float kLooksDown = 0.8f;  // cosine of 37 degrees, of the cameras' view from straight down
constexpr double kFlat = 0.2;       // of the spread across a plane: that along its normal
constexpr float kMinCosine = 0.5f;  // between a view and the way to the center it goes around
constexpr float kMinRadius = 0.05f;  // of its distance: a camera above the center is on no side
constexpr float kMaxGap = 2 * std::numbers::pi_v<float> / 3;

Vec3 MeanOf(std::span<const CaptureCamera> cameras, Vec3 (CaptureCamera::*axis)() const) {
  Vec3 sum{0, 0, 0};
  for (const CaptureCamera& camera : cameras) sum = sum + (camera.*axis)();
  return cameras.empty() ? sum : sum * (1.0f / static_cast<float>(cameras.size()));
}

}  // namespace

bool Sees(const CaptureCamera& camera, Vec3 point) {
  const Vec3 offset = point - camera.position();
  const float distance = Dot(offset, camera.forward());
  if (!(distance > 0)) return false;
  const float x = Dot(offset, camera.camera_to_world.Column(0)) / distance;
  const float y = Dot(offset, camera.up()) / distance;
  return x >= camera.left && x <= camera.right && y >= camera.bottom && y <= camera.top;
}

std::optional<Vec3> FocusOf(std::span<const CaptureCamera> cameras) {
  // Sum over lines of (I - f f^T) (x - p) = 0.
  double a[3][3] = {}, b[3] = {};
  for (const CaptureCamera& camera : cameras) {
    const Vec3 f = camera.forward(), p = camera.position();
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        const double m = (i == j ? 1.0 : 0.0) - double{f[i]} * f[j];
        a[i][j] += m;
        b[i] += m * p[j];
      }
    }
  }
  const auto cofactor = [&](int i, int j) {
    const int r0 = (i + 1) % 3, r1 = (i + 2) % 3, c0 = (j + 1) % 3, c1 = (j + 2) % 3;
    return a[r0][c0] * a[r1][c1] - a[r0][c1] * a[r1][c0];
  };
  double determinant = 0;
  for (int j = 0; j < 3; ++j) determinant += a[0][j] * cofactor(0, j);
  const double n = static_cast<double>(cameras.size());
  // Of parallel lines 0; of lines at random (2 n / 3)^3. 1e-3 is a bundle of about 2 degrees.
  if (cameras.empty() || !(determinant > 1e-3 * n * n * n)) return std::nullopt;
  Vec3 focus;
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (int j = 0; j < 3; ++j) sum += cofactor(j, i) * b[j];
    focus[i] = static_cast<float>(sum / determinant);
  }
  const auto in_front =
      std::count_if(cameras.begin(), cameras.end(), [&](const CaptureCamera& camera) {
        return Dot(focus - camera.position(), camera.forward()) > 0;
      });
  if (2 * in_front < static_cast<int64_t>(cameras.size())) return std::nullopt;
  return focus;
}

Vec3 UpOf(std::span<const CaptureCamera> cameras, std::optional<Vec3> file_up,
          std::optional<Vec3> ground) {
  const Vec3 up = MeanOf(cameras, &CaptureCamera::up);
  const Vec3 forward = MeanOf(cameras, &CaptureCamera::forward);
  const float up_length = Norm(up), forward_length = Norm(forward);
  const bool has_up = up_length > 0.1f, one_way = forward_length > kOneWayDirections;
  if (file_up.has_value()) {
    if (!has_up || Dot(*file_up, up) > kMaxTilt * up_length) return *file_up;
    if (one_way && -Dot(*file_up, forward) > kLooksDown * forward_length) return *file_up;
  }
  if (ground.has_value() && one_way) {
    const float along = Dot(*ground, forward);
    if (std::abs(along) > kLooksDown * forward_length) return *ground * (along < 0 ? 1.0f : -1.0f);
  }
  return has_up ? up * (1 / up_length) : Vec3{0, 0, 1};
}

std::optional<Vec3> PlaneNormalOf(std::span<const Vec3> points) {
  constexpr size_t kMinPoints = 20;
  if (points.size() < kMinPoints) return std::nullopt;
  std::vector<std::array<double, 3>> positions;
  positions.reserve(points.size());
  for (const Vec3& p : points) positions.push_back({p.x, p.y, p.z});
  const PrincipalAxes axes = PrincipalAxesOf(positions);
  if (!(axes.variances[2] < kFlat * kFlat * axes.variances[1])) return std::nullopt;
  return Vec3{static_cast<float>(axes.axes[2][0]), static_cast<float>(axes.axes[2][1]),
              static_cast<float>(axes.axes[2][2])};
}

bool GoAround(std::span<const CaptureCamera> cameras, Vec3 center, Vec3 up) {
  const Vec3 axis = std::abs(up.x) < 0.7f ? Vec3{1, 0, 0} : Vec3{0, 1, 0};
  const Vec3 first = Normalized(Cross(up, axis)), second = Cross(up, first);
  std::vector<float> angles;
  for (const CaptureCamera& camera : cameras) {
    const Vec3 offset = camera.position() - center;
    const float distance = Norm(offset);
    if (-Dot(camera.forward(), offset) < kMinCosine * distance) continue;
    const float x = Dot(offset, first), y = Dot(offset, second);
    if (std::hypot(x, y) <= kMinRadius * distance) continue;
    angles.push_back(std::atan2(y, x));
  }
  if (angles.empty()) return false;
  std::sort(angles.begin(), angles.end());
  float gap = angles.front() + 2 * std::numbers::pi_v<float> - angles.back();
  for (size_t i = 1; i < angles.size(); ++i) gap = std::max(gap, angles[i] - angles[i - 1]);
  return gap < kMaxGap;
}

}  // namespace nerf
