#pragma once

#include <cstdint>

namespace nerf {

// The backward pass of one dense layer without biases: outputs = inputs * weights.
struct LayerBackwardParams {
  int n_rows = 0, n_in = 0, n_out = 0;
  const float* grad_outputs = nullptr;         // [n_rows, n_out]
  const float* transposed_weights = nullptr;   // [n_out, n_in]
  const uint32_t* transposed_pairs = nullptr;  // of these in bf16 (PackNgpWeightPairs), or null
  bool inputs_are_relu = false;                // inputs of 0 get no gradient
  float* inputs = nullptr;                     // [n_rows, n_in], in; their gradients, out
  float* grad_weights = nullptr;               // [n_in, n_out], added to
};

void LayerBackward(const LayerBackwardParams& params);

}  // namespace nerf
