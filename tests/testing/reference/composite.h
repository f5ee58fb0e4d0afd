#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace nerf::reference {

// Alpha compositing of packed samples: those of ray r are [ray_offsets[r], ray_offsets[r + 1]).
// Written from the integral: the light that reaches sample i is exp(-sum_{j<i} sigma_j delta_j).
// Source: Max 1995, eq. 28.
struct CompositeResult {
  std::vector<double> transmittances;     // before each sample
  std::vector<double> weights;            // transmittance * alpha
  std::vector<double> ray_transmittance;  // what is left behind each ray's last sample
};
CompositeResult CompositeForward(std::span<const int> ray_offsets, std::span<const double> sigmas,
                                 std::span<const double> deltas);

// Gradient of sum_i grad_weights_i weight_i + sum_r grad_left_r ray_transmittance_r by each sigma.
//   d w_j / d sigma_i = delta_i * (i == j ? T_{i+1} : i < j ? -w_j : 0)
std::vector<double> CompositeBackward(std::span<const int> ray_offsets,
                                      std::span<const double> sigmas,
                                      std::span<const double> deltas,
                                      std::span<const double> grad_weights,
                                      std::span<const double> grad_left);

}  // namespace nerf::reference
