#include "tests/testing/reference/spherical_harmonics.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

namespace nerf::reference {
namespace {

// P_l^m(u) with the factor (-1)^m, by the usual recurrences.
double AssociatedLegendre(int l, int m, double u) {
  const double s = std::sqrt(std::max(0.0, 1 - u * u));
  double p_mm = 1;
  for (int i = 1; i <= m; ++i) p_mm *= -(2 * i - 1) * s;
  if (l == m) return p_mm;
  double previous = p_mm, p = u * (2 * m + 1) * p_mm;
  for (int i = m + 2; i <= l; ++i) {
    const double next = (u * (2 * i - 1) * p - (i + m - 1) * previous) / (i - m);
    previous = p;
    p = next;
  }
  return p;
}

double Factorial(int n) { return n <= 1 ? 1 : n * Factorial(n - 1); }

}  // namespace

std::array<double, 16> SphericalHarmonics4(double x, double y, double z) {
  std::array<double, 16> values;
  const double phi = std::atan2(y, x);
  for (int l = 0; l < 4; ++l) {
    for (int m = -l; m <= l; ++m) {
      const int k = std::abs(m);
      const double norm =
          std::sqrt((2 * l + 1) / (4 * std::numbers::pi) * Factorial(l - k) / Factorial(l + k));
      double value = norm * AssociatedLegendre(l, k, z);
      if (m > 0) value *= std::numbers::sqrt2 * std::cos(k * phi);
      if (m < 0) value *= std::numbers::sqrt2 * std::sin(k * phi);
      values[l * l + l + m] = value;
    }
  }
  return values;
}

}  // namespace nerf::reference
