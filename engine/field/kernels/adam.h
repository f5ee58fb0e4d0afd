#pragma once

#include <cstdint>

#include "engine/base/half_float.h"
#include "engine/field/kernels/stream.h"

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

// Adam on all n parameters. Gradients are not reset.
struct AdamDenseParams {
  AdamSettings settings;
  int64_t n = 0;
  float* parameters = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  const float* gradients = nullptr;
};

// bf16 has 8 bits of precision. A decay that removes less than 0.4% of a moment rounds back to the
// same value, so the moment would never shrink.
inline constexpr float kMaxBf16Decay = 0.995f;

// Adam on the hash table, in cache lines of 16 floats. Lines with touched[line] == 0 are skipped,
// and so are elements with zero gradient: an entry that no sample reads in a step keeps its
// parameter and moments. Gradients and flags of visited lines are reset to 0. settings.l2 is
// ignored. If half_copies is not null, the parameters of visited lines are also written there.
// Moments are floats, or packed bf16 (base/bfloat16.h) if moment_pairs is not null, the first
// moment in the low half of a word: this op is bound by memory, and moments are half of its
// traffic. Betas must then be at most kMaxBf16Decay. Arrays are aligned to cache lines.
struct AdamSparseParams {
  AdamSettings settings;
  int64_t n_lines = 0;  // a multiple of 8
  uint8_t* touched = nullptr;
  float* parameters = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  uint32_t* moment_pairs = nullptr;
  float* gradients = nullptr;
  Half* half_copies = nullptr;
};

// Adam on a row of n parameters, a multiple of 16, each at a rate of its own: rates[i] in place of
// settings.learning_rate * settings.correction1. settings.l2 is ignored.
struct AdamRowParams {
  AdamSettings settings;
  int n = 0;
  const float* rates = nullptr;
  float* parameters = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  const float* gradients = nullptr;
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
void AdamRow(const AdamRowParams& params);
void MovingAverage(const MovingAverageParams& params);
}  // namespace cpu

// All pointers, including settings, are to device memory: a launch recorded in a CUDA graph reads
// the settings of the current step.
namespace cuda {

// Settings shared by all updates of one step.
struct AdamStepSettings {
  AdamSettings adam;
  float gradient_factor = 1;  // multiplies gradients first, to undo the loss scale
};

// Adam on the hash table. Elements with zero gradient keep parameter and moments; nonzero gradients
// are reset to 0. settings->adam.l2 is ignored. Gradients are floats, or fixed point
// (hash_encoding.h) if fixed_gradients is not null. If half_copies is not null, the new parameters
// are also written there. *skip != 0 changes nothing but resets the gradients.
// Shapes: [n] each, n a multiple of 4.
// Traffic: 4 bytes (8 in fixed point) per element, and 28 more (30 with half copies) per element
// with a nonzero gradient. Reading every gradient is cheaper than flags for touched lines, which
// would take 128 stores per sample.
struct AdamSparseParams {
  const AdamStepSettings* settings = nullptr;
  const uint32_t* skip = nullptr;
  int64_t n = 0;
  float* gradients = nullptr;
  int64_t* fixed_gradients = nullptr;
  float* parameters = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  Half* half_copies = nullptr;
};

// Adam on all n parameters. Gradients are partial sums [n_parts][n] that are added in order. If
// half_copies is not null, the new parameters are also written there. If not_finite is not null,
// *not_finite becomes 1 when a new parameter is not finite. *skip != 0 changes nothing.
struct AdamDenseParams {
  const AdamStepSettings* settings = nullptr;
  const uint32_t* skip = nullptr;
  int64_t n = 0;
  int n_parts = 1;
  const float* gradients = nullptr;
  float* parameters = nullptr;
  float* first_moments = nullptr;
  float* second_moments = nullptr;
  Half* half_copies = nullptr;
  uint32_t* not_finite = nullptr;
};

void AdamSparse(const AdamSparseParams& params, Stream stream);
void AdamDense(const AdamDenseParams& params, Stream stream);
void MovingAverage(const MovingAverageParams& params, Stream stream);

}  // namespace cuda

}  // namespace nerf::kernels
