#include "engine/methods/autograd/spherical_harmonics_op.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace nerf::autograd {

// Computed from associated Legendre functions, independently of the kernel's polynomials, so that
// tests can compare the two. Q_l^m is P_l^m without its factor sin(theta)^m, which joins cos(m phi)
// and sin(m phi) in the polynomials c_m + i s_m = (-(x + i y))^m; the sign is the Condon-Shortley
// phase.
torch::Tensor SphericalHarmonics4(const torch::Tensor& directions) {
  TORCH_CHECK(directions.dim() == 2 && directions.size(1) == 3,
              "SphericalHarmonics4: directions are ", directions.sizes(), ", expected [n, 3]");
  constexpr int kDegrees = 4;
  const torch::Tensor x = directions.select(1, 0), y = directions.select(1, 1),
                      z = directions.select(1, 2);
  std::vector<torch::Tensor> harmonics(kDegrees * kDegrees);
  torch::Tensor cosine = torch::ones_like(x), sine = torch::zeros_like(x);
  double factorials = 1;  // (2m - 1)!!
  for (int m = 0; m < kDegrees; ++m) {
    if (m > 0) {
      const torch::Tensor previous = cosine;
      cosine = -(x * cosine - y * sine);
      sine = -(x * sine + y * previous);
      factorials *= 2 * m - 1;
    }
    torch::Tensor below, q = torch::full_like(z, factorials);
    double ratio = 1;  // (l - m)! / (l + m)!
    for (int i = 1; i <= 2 * m; ++i) ratio /= i;
    for (int l = m; l < kDegrees; ++l) {
      if (l > m) {
        torch::Tensor next = (2 * l - 1) * z * q;
        if (below.defined()) next = next - (l + m - 1) * below;
        below = q;
        q = next / (l - m);
        ratio *= static_cast<double>(l - m) / (l + m);
      }
      const double norm = std::sqrt((2 * l + 1) / (4 * std::numbers::pi) * ratio * (m ? 2 : 1));
      harmonics[l * l + l + m] = norm * q * cosine;
      if (m > 0) harmonics[l * l + l - m] = norm * q * sine;
    }
  }
  return torch::stack(harmonics, 1);
}

}  // namespace nerf::autograd
