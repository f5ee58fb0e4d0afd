#pragma once

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace nerf::kernels {

// Density from the MLP's first output: exp(min(x - shift, 15)) per training unit. An untrained
// field has x near 0, so the shift sets the initial density; the clamp keeps exp finite.
inline constexpr float kDensityMaxExponent = 15.0f;
NERF_HD inline float DensityFromOutput(float x, float shift) {
  // A copy, because device code cannot take the constant's address, which std::min needs.
  return std::exp(std::min(x - shift, float{kDensityMaxExponent}));
}

// Opacity of a sample of length delta: 1 - exp(-sigma delta).
NERF_HD inline float AlphaFromDensity(float sigma, float delta) {
  return -std::expm1(-sigma * delta);  // expm1 keeps the digits of small arguments
}

// sigmas[i] = DensityFromOutput(outputs[i * stride], shift) and, unless alphas is null,
// alphas[i] = AlphaFromDensity(sigmas[i], deltas[i]).
struct DensityActivationParams {
  int n = 0;
  const float* outputs = nullptr;
  int stride = 0;
  float shift = 0;
  const float* deltas = nullptr;
  float* sigmas = nullptr;
  float* alphas = nullptr;
};

// alphas[i] = AlphaFromDensity(sigmas[i], deltas[i]).
struct AlphasParams {
  int n = 0;
  const float* sigmas = nullptr;
  const float* deltas = nullptr;
  float* alphas = nullptr;
};

// In place: values[i] = 1 / (1 + exp(-values[i])).
struct SigmoidParams {
  int n = 0;
  float* values = nullptr;
};

namespace cpu {
void DensityActivation(const DensityActivationParams& params);
void Alphas(const AlphasParams& params);
void Sigmoid(const SigmoidParams& params);
}  // namespace cpu

}  // namespace nerf::kernels
