#include "tests/testing/reference/composite.h"

#include <cmath>

namespace nerf::reference {

CompositeResult CompositeForward(std::span<const int> ray_offsets, std::span<const double> sigmas,
                                 std::span<const double> deltas) {
  CompositeResult result;
  for (size_t r = 0; r + 1 < ray_offsets.size(); ++r) {
    double depth = 0;  // optical
    for (int i = ray_offsets[r]; i < ray_offsets[r + 1]; ++i) {
      const double transmittance = std::exp(-depth);
      result.transmittances.push_back(transmittance);
      result.weights.push_back(transmittance * -std::expm1(-sigmas[i] * deltas[i]));
      depth += sigmas[i] * deltas[i];
    }
    result.ray_transmittance.push_back(std::exp(-depth));
  }
  return result;
}

std::vector<double> CompositeBackward(std::span<const int> ray_offsets,
                                      std::span<const double> sigmas,
                                      std::span<const double> deltas,
                                      std::span<const double> grad_weights,
                                      std::span<const double> grad_left) {
  const CompositeResult forward = CompositeForward(ray_offsets, sigmas, deltas);
  std::vector<double> grad_sigmas(sigmas.size());
  for (size_t r = 0; r + 1 < ray_offsets.size(); ++r) {
    for (int i = ray_offsets[r]; i < ray_offsets[r + 1]; ++i) {
      const double transmittance_after = forward.transmittances[i] - forward.weights[i];
      double sum = grad_weights[i] * transmittance_after;
      for (int j = i + 1; j < ray_offsets[r + 1]; ++j) sum -= grad_weights[j] * forward.weights[j];
      sum -= grad_left[r] * forward.ray_transmittance[r];
      grad_sigmas[i] = deltas[i] * sum;
    }
  }
  return grad_sigmas;
}

}  // namespace nerf::reference
