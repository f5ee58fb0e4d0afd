#include "tests/testing/reference/dense_layer.h"

#include <algorithm>

namespace nerf::reference {

Matrix DenseForward(const Matrix& inputs, const Matrix& weights, bool relu) {
  Matrix outputs(inputs.n_rows, weights.n_columns);
  for (int m = 0; m < outputs.n_rows; ++m) {
    for (int n = 0; n < outputs.n_columns; ++n) {
      double sum = 0;
      for (int k = 0; k < inputs.n_columns; ++k) sum += inputs.at(m, k) * weights.at(k, n);
      outputs.at(m, n) = relu ? std::max(sum, 0.0) : sum;
    }
  }
  return outputs;
}

Matrix DenseBackwardInputs(const Matrix& grad_outputs, const Matrix& weights) {
  Matrix grad_inputs(grad_outputs.n_rows, weights.n_rows);
  for (int m = 0; m < grad_inputs.n_rows; ++m) {
    for (int k = 0; k < grad_inputs.n_columns; ++k) {
      double sum = 0;
      for (int n = 0; n < weights.n_columns; ++n) sum += grad_outputs.at(m, n) * weights.at(k, n);
      grad_inputs.at(m, k) = sum;
    }
  }
  return grad_inputs;
}

Matrix DenseBackwardWeights(const Matrix& inputs, const Matrix& grad_outputs) {
  Matrix grad_weights(inputs.n_columns, grad_outputs.n_columns);
  for (int k = 0; k < grad_weights.n_rows; ++k) {
    for (int n = 0; n < grad_weights.n_columns; ++n) {
      double sum = 0;
      for (int m = 0; m < inputs.n_rows; ++m) sum += inputs.at(m, k) * grad_outputs.at(m, n);
      grad_weights.at(k, n) = sum;
    }
  }
  return grad_weights;
}

}  // namespace nerf::reference
