#pragma once

#include <cstdint>

// No inline functions here: files with compiler flags of their own include this header by way of
// kernels/cpu/bf16_unit.h, and their copies of such functions would run on other machines.

namespace nerf::kernels {

// Layers of a small bias-free MLP on a batch of samples, row-major fp32. Any number of rows;
// strides are in floats. The number of output columns of each product is a multiple of 16: narrower
// layers are padded with zero weights.
//
// bf16 paths read the weights packed in pairs of rows (PackBf16Pairs): row p of the pairs holds
// rows 2 p and 2 p + 1 of the weights. A caller that packs all layers' weights at once passes a
// layer's pairs as weight_pairs; without them each call packs its own. fp32 paths ignore
// weight_pairs. Requires: 15 more rows after a layer's last pair are readable and finite (they are
// multiplied by zeros).

// outputs[m][n] = act(sum_k inputs[m][k] * weights[k][n]), act(x) = relu ? max(x, 0) : x. With
// accumulate, the old value of outputs[m][n] is added before act.
// Shapes: inputs [n_rows][n_in], weights [n_in][n_out], outputs [n_rows][n_out].
struct DenseForwardParams {
  int n_rows = 0, n_in = 0, n_out = 0;
  const float* inputs = nullptr;
  int input_stride = 0;
  const float* weights = nullptr;
  const uint32_t* weight_pairs = nullptr;
  float* outputs = nullptr;
  int output_stride = 0;
  bool relu = false;
  bool accumulate = false;
};

// Gradient by the inputs:
//   grad_inputs[m][k] = sum_n grad_outputs[m][n] * weights[n][k], 0 where gate[m][k] <= 0.
// gate holds the layer's inputs if they come from a ReLU, else null.
// Shapes: grad_outputs [n_rows][n_out], weights [n_out][n_in] (the transpose of the forward pass's;
// rows are weight_stride floats apart, 0 means n_in), gate and grad_inputs [n_rows][n_in]; n_in a
// multiple of 16.
struct DenseBackwardInputParams {
  int n_rows = 0, n_in = 0, n_out = 0;
  const float* grad_outputs = nullptr;
  int grad_output_stride = 0;
  const float* weights = nullptr;
  const uint32_t* weight_pairs = nullptr;
  int weight_stride = 0;
  const float* gate = nullptr;
  int gate_stride = 0;
  float* grad_inputs = nullptr;
  int grad_input_stride = 0;
};

// Gradient by the weights: grad_weights[k][n] += sum_m inputs[m][k] * grad_outputs[m][n], summed in
// the order of m. Shapes: inputs [n_rows][n_in], grad_outputs [n_rows][n_out], grad_weights
// [n_in][n_out]; n_in a multiple of 4, n_out of 16.
struct DenseBackwardWeightsParams {
  int n_rows = 0, n_in = 0, n_out = 0;
  const float* inputs = nullptr;
  int input_stride = 0;
  const float* grad_outputs = nullptr;
  int grad_output_stride = 0;
  float* grad_weights = nullptr;
};

namespace cpu {
// Whether layers are multiplied in bf16 in this process (kernels/simd_path.h).
bool UsesBf16Layers();
// pairs[p][c] = values[2 p][c] rounded to bf16 in the low half and values[2 p + 1][c] in the high
// half. n_rows is even, n_columns a multiple of 16. Does nothing unless UsesBf16Layers().
void PackBf16Pairs(int n_rows, int n_columns, const float* values, uint32_t* pairs);

void DenseForward(const DenseForwardParams& params);
void DenseBackwardInput(const DenseBackwardInputParams& params);
void DenseBackwardWeights(const DenseBackwardWeightsParams& params);
}  // namespace cpu

}  // namespace nerf::kernels
