#include "engine/export/files/seen_color.h"

#include <cmath>

namespace nerf {
namespace {

constexpr float kRidge = 0.005f;  // of the slopes' squares against those of the mean error

}  // namespace

SeenColor FitSeenColor(std::span<const Vec3> directions, std::span<const Vec3> colors) {
  const float share = 1 / static_cast<float>(directions.size());
  Vec3 mean_direction, mean_color;
  for (size_t i = 0; i < directions.size(); ++i) {
    mean_direction = mean_direction + directions[i] * share;
    mean_color = mean_color + colors[i] * share;
  }
  float covariance[3][3] = {{kRidge, 0, 0}, {0, kRidge, 0}, {0, 0, kRidge}};
  SeenColor fit;
  for (size_t i = 0; i < directions.size(); ++i) {
    const Vec3 d = directions[i] - mean_direction;
    const Vec3 c = (colors[i] - mean_color) * share;
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column)
        covariance[row][column] += d[row] * d[column] * share;
      fit.slope[row] = fit.slope[row] + c * d[row];
    }
  }
  // Gauss-Jordan without pivots: the ridge keeps the matrix positive definite.
  for (int row = 0; row < 3; ++row) {
    const float inverse = 1 / covariance[row][row];
    for (float& value : covariance[row]) value *= inverse;
    fit.slope[row] = fit.slope[row] * inverse;
    for (int other = 0; other < 3; ++other) {
      if (other == row) continue;
      const float factor = covariance[other][row];
      for (int column = 0; column < 3; ++column) {
        covariance[other][column] -= factor * covariance[row][column];
      }
      fit.slope[other] = fit.slope[other] - fit.slope[row] * factor;
    }
  }
  fit.base = mean_color - fit.slope[0] * mean_direction.x - fit.slope[1] * mean_direction.y -
             fit.slope[2] * mean_direction.z;
  return fit;
}

}  // namespace nerf
