#include "engine/field/kernels/spherical_harmonics.h"

#include <cmath>
#include <numbers>

#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/reference/spherical_harmonics.h"

namespace nerf::kernels {
namespace {

TEST(SphericalHarmonicsTest, AgreeWithLegendrePolynomials) {
  for (const Vec3& d : RandomDirections(1000)) {
    float values[16];
    SphericalHarmonics4(d, values);
    const auto expected = reference::SphericalHarmonics4(d.x, d.y, d.z);
    // Terms of size up to 3, a handful of roundings; the direction's length is 1 to a rounding.
    for (int i = 0; i < 16; ++i) EXPECT_NEAR(values[i], expected[i], 3e-6) << i;
  }
}

TEST(SphericalHarmonicsTest, AxesWorkedByHand) {
  float values[16];
  SphericalHarmonics4({0, 0, 1}, values);
  EXPECT_FLOAT_EQ(values[0], 0.5f / std::sqrt(std::numbers::pi_v<float>));
  EXPECT_FLOAT_EQ(values[2], std::sqrt(3 / (4 * std::numbers::pi_v<float>)));
  EXPECT_FLOAT_EQ(values[6], 0.5f * std::sqrt(5 / std::numbers::pi_v<float>));
  EXPECT_FLOAT_EQ(values[12], 0.5f * std::sqrt(7 / std::numbers::pi_v<float>));
  for (int i : {1, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 15}) EXPECT_EQ(values[i], 0) << i;
}

TEST(SphericalHarmonicsTest, OrthonormalOverTheSphere) {
  // Gauss quadrature is exact for these polynomials: equal steps in phi, Legendre nodes in z.
  constexpr double kNodes[] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267,
                               0.9602898564975363};
  constexpr double kNodeWeights[] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745,
                                     0.1012285362903763};
  constexpr int kPhis = 16;
  double products[16][16] = {};
  for (int node = 0; node < 8; ++node) {
    const double z = node % 2 ? kNodes[node / 2] : -kNodes[node / 2], s = std::sqrt(1 - z * z);
    for (int p = 0; p < kPhis; ++p) {
      const double phi = 2 * std::numbers::pi * p / kPhis;
      float values[16];
      SphericalHarmonics4({static_cast<float>(s * std::cos(phi)),
                           static_cast<float>(s * std::sin(phi)), static_cast<float>(z)},
                          values);
      const double area = kNodeWeights[node / 2] * 2 * std::numbers::pi / kPhis;
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) products[i][j] += area * values[i] * values[j];
    }
  }
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) EXPECT_NEAR(products[i][j], i == j, 1e-5) << i << ", " << j;
}

}  // namespace
}  // namespace nerf::kernels
