#pragma once

#include "engine/base/vec3.h"

namespace nerf {

// The harmonic of degree 0, the same in every direction.
inline constexpr float kFirstSplatHarmonic = 0.28209479f;

// Real spherical harmonics up to a degree of 3, in the order and with the signs of files of splats:
// of degree 1 those of -y, z, -x. Their values at a direction of unit length and, unless
// `derivatives` is null, their derivatives by it, where x, y and z are taken as independent.
// Shapes: values, derivatives [(degree + 1)^2].
inline void SplatHarmonics(int degree, Vec3 direction, float* values, Vec3* derivatives) {
  const float x = direction.x, y = direction.y, z = direction.z;
  values[0] = kFirstSplatHarmonic;
  if (derivatives != nullptr) derivatives[0] = {};
  if (degree < 1) return;
  constexpr float k1 = 0.48860251f;
  values[1] = -k1 * y;
  values[2] = k1 * z;
  values[3] = -k1 * x;
  if (derivatives != nullptr) {
    derivatives[1] = {0, -k1, 0};
    derivatives[2] = {0, 0, k1};
    derivatives[3] = {-k1, 0, 0};
  }
  if (degree < 2) return;
  constexpr float k2 = 1.09254843f, k20 = 0.31539157f, k22 = 0.54627422f;
  const float xx = x * x, yy = y * y, zz = z * z;
  values[4] = k2 * x * y;
  values[5] = -k2 * y * z;
  values[6] = k20 * (2 * zz - xx - yy);
  values[7] = -k2 * x * z;
  values[8] = k22 * (xx - yy);
  if (derivatives != nullptr) {
    derivatives[4] = {k2 * y, k2 * x, 0};
    derivatives[5] = {0, -k2 * z, -k2 * y};
    derivatives[6] = {-2 * k20 * x, -2 * k20 * y, 4 * k20 * z};
    derivatives[7] = {-k2 * z, 0, -k2 * x};
    derivatives[8] = {2 * k22 * x, -2 * k22 * y, 0};
  }
  if (degree < 3) return;
  constexpr float k30 = 0.37317633f, k31 = 0.45704580f, k32 = 1.44530572f, k32z = 2.89061144f,
                  k33 = 0.59004359f;
  values[9] = -k33 * y * (3 * xx - yy);
  values[10] = k32z * x * y * z;
  values[11] = -k31 * y * (4 * zz - xx - yy);
  values[12] = k30 * z * (2 * zz - 3 * xx - 3 * yy);
  values[13] = -k31 * x * (4 * zz - xx - yy);
  values[14] = k32 * z * (xx - yy);
  values[15] = -k33 * x * (xx - 3 * yy);
  if (derivatives == nullptr) return;
  derivatives[9] = {-6 * k33 * x * y, -3 * k33 * (xx - yy), 0};
  derivatives[10] = {k32z * y * z, k32z * x * z, k32z * x * y};
  derivatives[11] = {2 * k31 * x * y, -k31 * (4 * zz - xx - 3 * yy), -8 * k31 * y * z};
  derivatives[12] = {-6 * k30 * x * z, -6 * k30 * y * z, k30 * (6 * zz - 3 * xx - 3 * yy)};
  derivatives[13] = {-k31 * (4 * zz - 3 * xx - yy), 2 * k31 * x * y, -8 * k31 * x * z};
  derivatives[14] = {2 * k32 * x * z, -2 * k32 * y * z, k32 * (xx - yy)};
  derivatives[15] = {-3 * k33 * (xx - yy), 6 * k33 * x * y, 0};
}

// Turns or mirrors what harmonics show: coefficients of them whose value at T d is that of the
// given ones at d, for every direction d.
class HarmonicTurn {
 public:
  // The columns of T, orthogonal and of unit length.
  HarmonicTurn(int degree, Vec3 x, Vec3 y, Vec3 z);

  // Shapes: coefficients, turned [(degree + 1)^2], `stride` numbers apart.
  void Apply(const float* coefficients, int stride, float* turned) const;

 private:
  const int n_;
  float matrix_[16][16] = {};
};

}  // namespace nerf
