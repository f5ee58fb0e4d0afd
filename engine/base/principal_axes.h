#pragma once

#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace nerf {

// The axes along which points spread, the widest first.
struct PrincipalAxes {
  std::array<double, 3> mean{};
  std::array<std::array<double, 3>, 3> axes{};  // unit vectors
  std::array<double, 3> variances{};            // along them
};

// Eigenvectors of the covariance by Jacobi's rotations. Of no points: all 0 and the axes x, y, z.
inline PrincipalAxes PrincipalAxesOf(std::span<const std::array<double, 3>> points) {
  PrincipalAxes result;
  double a[3][3] = {}, v[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  const double n = points.empty() ? 1 : static_cast<double>(points.size());
  for (const auto& p : points) {
    for (size_t i = 0; i < 3; ++i) result.mean[i] += p[i] / n;
  }
  for (const auto& p : points) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        a[i][j] += (p[i] - result.mean[i]) * (p[j] - result.mean[j]) / n;
      }
    }
  }
  constexpr int kSweeps = 32;  // far more than three dimensions need
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (const auto& [p, q] : {std::pair<size_t, size_t>{0, 1}, {0, 2}, {1, 2}}) {
      if (std::abs(a[p][q]) < 1e-300) continue;
      const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
      const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
      const double c = 1 / std::sqrt(t * t + 1), s = t * c;
      for (size_t k = 0; k < 3; ++k) {
        const double kp = a[k][p], kq = a[k][q];
        a[k][p] = c * kp - s * kq;
        a[k][q] = s * kp + c * kq;
      }
      for (size_t k = 0; k < 3; ++k) {
        const double pk = a[p][k], qk = a[q][k];
        a[p][k] = c * pk - s * qk;
        a[q][k] = s * pk + c * qk;
        const double vp = v[k][p], vq = v[k][q];
        v[k][p] = c * vp - s * vq;
        v[k][q] = s * vp + c * vq;
      }
    }
  }
  size_t order[3] = {0, 1, 2};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (a[order[j]][order[j]] < a[order[j + 1]][order[j + 1]]) std::swap(order[j], order[j + 1]);
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    result.variances[i] = a[order[i]][order[i]];
    for (size_t k = 0; k < 3; ++k) result.axes[i][k] = v[k][order[i]];
  }
  return result;
}

}  // namespace nerf
