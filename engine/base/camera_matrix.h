#pragma once

#include <cmath>

namespace nerf {

// Limits of the numbers of a camera-to-world matrix, the same for files, server and engine.
inline constexpr double kMaxCoordinate = 1e9;
inline constexpr double kMaxBottomRowError = 1e-3;  // of 0 0 0 1

// Whether the first three columns are a rotation times a positive number: not zero, mirrored, or
// more than 1% sheared or unequally scaled. *scale is the mean length of the columns.
inline bool IsScaledRotation(const double (&m)[3][4], double* scale) {
  constexpr double kMaxShear = 0.01;
  const auto dot = [&](int a, int b) {
    return m[0][a] * m[0][b] + m[1][a] * m[1][b] + m[2][a] * m[2][b];
  };
  double lengths[3];
  *scale = 0;
  for (int i = 0; i < 3; ++i) {
    lengths[i] = std::sqrt(dot(i, i));
    *scale += lengths[i] / 3;
  }
  if (!(*scale > 1e-6) || !(*scale < 1e6)) return false;
  for (int i = 0; i < 3; ++i) {
    if (std::abs(lengths[i] / *scale - 1) > kMaxShear) return false;
    if (std::abs(dot(i, (i + 1) % 3) / (*scale * *scale)) > kMaxShear) return false;
  }
  double determinant = 0;
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    determinant += m[i][2] * (m[j][0] * m[k][1] - m[k][0] * m[j][1]);
  }
  return determinant > 0;
}

}  // namespace nerf
