#pragma once

#include <array>

namespace nerf::reference {

// Real spherical harmonics of degree 0 to 3 with the Condon-Shortley phase, in the order (0,0),
// (1,-1), ... (3,3), from associated Legendre polynomials of cos(theta) = z and cosines of m phi.
std::array<double, 16> SphericalHarmonics4(double x, double y, double z);

}  // namespace nerf::reference
