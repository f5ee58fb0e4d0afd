#pragma once

#include <cstddef>
#include <vector>

namespace nerf::reference {

// A row-major matrix of doubles.
struct Matrix {
  Matrix(int n_rows, int n_columns)
      : n_rows(n_rows), n_columns(n_columns), values(static_cast<size_t>(n_rows) * n_columns) {}
  double& at(int row, int column) { return values[static_cast<size_t>(row) * n_columns + column]; }
  double at(int row, int column) const {
    return values[static_cast<size_t>(row) * n_columns + column];
  }
  int n_rows, n_columns;
  std::vector<double> values;
};

// inputs * weights, max(x, 0) of it when relu.
Matrix DenseForward(const Matrix& inputs, const Matrix& weights, bool relu);

// Gradient of sum(grad_outputs * (inputs * weights)) by inputs and by weights.
Matrix DenseBackwardInputs(const Matrix& grad_outputs, const Matrix& weights);
Matrix DenseBackwardWeights(const Matrix& inputs, const Matrix& grad_outputs);

}  // namespace nerf::reference
