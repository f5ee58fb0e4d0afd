#pragma once

#include <cstdint>

#include "engine/base/half_float.h"
#include "engine/kernels/stream.h"

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

// A moment in bf16 lies up to 0.4% from its neighbors' middle: where a step takes less of it than
// that, rounding to nearest gives it back, and it never falls.
inline constexpr float kMaxBf16Decay = 0.995f;

// Parameters in cache lines of 16 floats: lines with touched[line] == 0 are skipped, and in the
// others elements of zero gradient: neither parameter nor moments of an entry change in a step that
// does not see it. Visited gradients and flags are reset to 0. settings.l2 is ignored. Where
// half_copies is not null the parameters of visited lines are written there, too. Moments are
// floats or, where moment_pairs is not null, bf16 (base/bfloat16.h), the first one in the low half
// of a word: memory bounds this op, and moments are half of what it reads and writes. Decays must
// then be at most kMaxBf16Decay. Arrays begin at cache lines.
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

// All pointers are to device memory, the settings too: a recorded launch reads those of its step.
namespace cuda {

// What the updates of one step share.
struct AdamStepSettings {
  AdamSettings adam;
  float gradient_factor = 1;  // applied to gradients first: undoes their scaling
};

// Adam on the hash table: elements of zero gradient stay as they are, moments included, and visited
// gradients are reset to 0. settings->adam.l2 is ignored. Gradients are floats, or fixed point
// (hash_encoding.h). Where half_copies is not null the new parameters are written there, too.
// Shapes: [n] each, n a multiple of 4. *skip != 0 leaves everything as it is but for the gradients,
// which are reset.
// Traffic: 4 bytes (8 in fixed point) an element, and 28 more (30 with half copies) for each that
// is not zero: looking at every gradient costs less than marking lines would, 128 stores a sample.
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

// Adam on all n parameters, whose gradients come in n_parts rows [n_parts][n] that are summed in
// order. Where half_copies is not null the new parameters are written there, too. *not_finite,
// where that is not null, becomes 1 if one of them is not a finite number. *skip != 0 leaves
// everything as it is.
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
