#include "engine/methods/splats/harmonics.h"

#include <cmath>

namespace nerf {

// The harmonics are orthogonal, so that a turned one has as its coefficients its integrals with all
// of them over the sphere. The sum below is exact for polynomials up to degree 7: four Gauss-
// Legendre nodes along z, eight even steps around it.
HarmonicTurn::HarmonicTurn(int degree, Vec3 x, Vec3 y, Vec3 z) : n_((degree + 1) * (degree + 1)) {
  constexpr double kNodes[] = {0.3399810435848563, 0.8611363115940526};
  constexpr double kWeights[] = {0.6521451548625461, 0.3478548451374538};
  constexpr int kSteps = 8;
  constexpr double kPi = 3.14159265358979323846;
  for (int node = 0; node < 4; ++node) {
    const double height = node % 2 == 0 ? kNodes[node / 2] : -kNodes[node / 2];
    const double radius = std::sqrt(1 - height * height);
    for (int step = 0; step < kSteps; ++step) {
      const double angle = 2 * kPi * step / kSteps;
      const Vec3 direction{static_cast<float>(radius * std::cos(angle)),
                           static_cast<float>(radius * std::sin(angle)),
                           static_cast<float>(height)};
      const Vec3 turned = x * direction.x + y * direction.y + z * direction.z;
      float before[16], after[16];
      SplatHarmonics(degree, direction, before, nullptr);
      SplatHarmonics(degree, turned, after, nullptr);
      const auto weight = static_cast<float>(kWeights[node / 2] * 2 * kPi / kSteps);
      for (int i = 0; i < n_; ++i) {
        for (int j = 0; j < n_; ++j) matrix_[i][j] += weight * after[i] * before[j];
      }
    }
  }
}

void HarmonicTurn::Apply(const float* coefficients, int stride, float* turned) const {
  for (int i = 0; i < n_; ++i) {
    float sum = 0;
    for (int j = 0; j < n_; ++j) sum += matrix_[i][j] * coefficients[j * stride];
    turned[i * stride] = sum;
  }
}

}  // namespace nerf
