#pragma once

// Without headers and functions: kernels/cpu/pair_product.h includes it.

namespace nerf::kernels {

// Layers of a small bias-free MLP on a batch of samples, row-major fp32. Row counts may be
// anything; strides are in floats. n_out (of the product that is computed) is a multiple of 16:
// narrower layers are padded with zero weights.

// outputs[m][n] = act(sum_k inputs[m][k] * weights[k][n]), act = max(x, 0) when relu. With
// accumulate, what outputs hold is added to the sum first.
// Shapes: inputs [n_rows][n_in], weights [n_in][n_out], outputs [n_rows][n_out].
struct DenseForwardParams {
  int n_rows = 0, n_in = 0, n_out = 0;
  const float* inputs = nullptr;
  int input_stride = 0;
  const float* weights = nullptr;
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
void DenseForward(const DenseForwardParams& params);
void DenseBackwardInput(const DenseBackwardInputParams& params);
void DenseBackwardWeights(const DenseBackwardWeightsParams& params);
}  // namespace cpu

}  // namespace nerf::kernels
