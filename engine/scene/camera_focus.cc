#include "engine/scene/camera_focus.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/base/check.h"

namespace nerf {
namespace {

double Distance(const Pose& camera, const Vec3d& point) {
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += std::pow(camera.m[i][3] - point[i], 2);
  return std::sqrt(sum);
}

}  // namespace

// Solves sum_i (I - d_i d_i^T) x = sum_i (I - d_i d_i^T) o_i.
std::optional<Vec3d> ClosestPointToAxes(std::span<const Pose> cameras) {
  double a[3][4] = {};
  for (const Pose& camera : cameras) {
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        const double projector = (i == j) - camera.m[i][2] * camera.m[j][2];
        a[i][j] += projector;
        a[i][3] += projector * camera.m[j][3];
      }
    }
  }
  // Gaussian elimination without pivoting: the matrix is positive semidefinite.
  const double tolerance = 1e-3 * static_cast<double>(cameras.size());
  for (int i = 0; i < 3; ++i) {
    if (!(a[i][i] >= tolerance) || cameras.empty()) return std::nullopt;
    for (int row = i + 1; row < 3; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (int column = i; column < 4; ++column) a[row][column] -= factor * a[i][column];
    }
  }
  Vec3d x;
  for (int i = 2; i >= 0; --i) {
    x[i] = a[i][3];
    for (int j = i + 1; j < 3; ++j) x[i] -= a[i][j] * x[j];
    x[i] /= a[i][i];
  }
  return x;
}

double MedianDistance(std::span<const Pose> cameras, const Vec3d& point) {
  NERF_CHECK(!cameras.empty());
  std::vector<double> distances;
  for (const Pose& camera : cameras) distances.push_back(Distance(camera, point));
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

double ShareLookingAt(std::span<const Pose> cameras, const Vec3d& point, double max_degrees) {
  const double min_cosine = std::cos(max_degrees * std::numbers::pi / 180);
  const auto looks = [&](const Pose& camera) {
    double along_axis = 0;
    for (int i = 0; i < 3; ++i) along_axis -= camera.m[i][2] * (point[i] - camera.m[i][3]);
    return along_axis > min_cosine * Distance(camera, point);
  };
  const auto n = std::count_if(cameras.begin(), cameras.end(), looks);
  return cameras.empty() ? 0 : static_cast<double>(n) / static_cast<double>(cameras.size());
}

}  // namespace nerf
