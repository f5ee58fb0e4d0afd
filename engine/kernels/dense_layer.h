#pragma once

#include <cstdint>

// Without inline functions: kernels/cpu/bf16_unit.h includes it.

namespace nerf::kernels {

// Layers of a small bias-free MLP on a batch of samples, row-major fp32. Row counts may be
// anything; strides are in floats. n_out (of the product that is computed) is a multiple of 16:
// narrower layers are padded with zero weights.
//
// Paths that multiply in bf16 take weights as pairs of rows (PackBf16Pairs) in the layout of the
// weights: where a layer's stand at weights + i with rows `stride` apart, i a multiple of 2 *
// stride but for a column, its pairs stand at weight_pairs + i / 2 and the column. Up to 15 rows of
// pairs after the layer's last may be read, and are multiplied by zeros: they are readable and
// finite. Without weight_pairs each call makes its own; paths in fp32 ignore them.

// outputs[m][n] = act(sum_k inputs[m][k] * weights[k][n]), act = max(x, 0) when relu. With
// accumulate, what outputs hold is added to the sum first.
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

// Gradient to the inputs: grad_inputs[m][k] = (gate == null or gate[m][k] > 0) * sum_n
// grad_outputs[m][n] * weights[n][k]. Shapes: grad_outputs [n_rows][n_out], weights [n_out][n_in]
// (the transpose of the forward's; rows weight_stride apart, 0 for n_in), gate and grad_inputs
// [n_rows][n_in]; n_in a multiple of 16.
// gate is the forward input where that came out of a ReLU.
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

// Gradient to the weights: grad_weights[k][n] += sum_m inputs[m][k] * grad_outputs[m][n], rows in
// order. Shapes: inputs [n_rows][n_in], grad_outputs [n_rows][n_out], grad_weights [n_in][n_out];
// n_in a multiple of 4, n_out of 16.
struct DenseBackwardWeightsParams {
  int n_rows = 0, n_in = 0, n_out = 0;
  const float* inputs = nullptr;
  int input_stride = 0;
  const float* grad_outputs = nullptr;
  int grad_output_stride = 0;
  float* grad_weights = nullptr;
};

namespace cpu {
// Whether this process multiplies layers in bf16 (kernels/simd_path.h).
bool UsesBf16Layers();
// Where it does: pairs[p][c] holds values[2 p][c], rounded to bf16, in its low half and
// values[2 p + 1][c] in its high one. n_rows is even, n_columns a multiple of 16.
void PackBf16Pairs(int n_rows, int n_columns, const float* values, uint32_t* pairs);

void DenseForward(const DenseForwardParams& params);
void DenseBackwardInput(const DenseBackwardInputParams& params);
void DenseBackwardWeights(const DenseBackwardWeightsParams& params);
}  // namespace cpu

}  // namespace nerf::kernels
