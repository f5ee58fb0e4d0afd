#pragma once

#include <cmath>
#include <span>

namespace nerf::reference {

// The distortion of a ray by the double sum of its definition, for samples of one length.
// Source: Barron et al. 2022, "Mip-NeRF 360", eq. 15.
inline double Distortion(std::span<const double> weights, std::span<const double> places,
                         double length) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i] * weights[i] * length / 3;
    for (size_t j = 0; j < weights.size(); ++j)
      sum += weights[i] * weights[j] * std::abs(places[i] - places[j]);
  }
  return sum;
}

}  // namespace nerf::reference
