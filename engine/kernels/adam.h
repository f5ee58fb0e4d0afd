#pragma once

#include <cstdint>

namespace nerf::kernels {

// Adam with bias correction folded into two factors that the caller computes for the step:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//   p -= learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon),  g = grad + l2
//   * p.
// Source: Kingma and Ba 2015, algorithm 1.
struct AdamSettings {
  float learning_rate = 0;
  float beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-15f;
  float correction1 = 1;  // 1 / (1 - beta1^t)
  float correction2 = 1;  // 1 / (1 - beta2^t)
  float l2 = 0;
};

// All n parameters. Gradients are left as they are.
struct AdamDenseParams {
  AdamSettings settings;
  int64_t n = 0;
  float* parameters = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  const float* gradients = nullptr;
};

// Parameters in cache lines of 16 floats: lines with touched[line] == 0 are skipped, and in the
// others elements of zero gradient: neither parameter nor moments of an entry change in a step that
// does not see it. Visited gradients and flags are reset to 0. settings.l2 is ignored.
struct AdamSparseParams {
  AdamSettings settings;
  int64_t n_lines = 0;  // a multiple of 8
  uint8_t* touched = nullptr;
  float* parameters = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  float* gradients = nullptr;
};

// averages[i] = decay * averages[i] + (1 - decay) * parameters[i].
struct MovingAverageParams {
  float decay = 0;
  int64_t n = 0;
  const float* parameters = nullptr;
  float* averages = nullptr;
};

namespace cpu {
void AdamDense(const AdamDenseParams& params);
void AdamSparse(const AdamSparseParams& params);
void MovingAverage(const MovingAverageParams& params);
}  // namespace cpu

}  // namespace nerf::kernels
