#pragma once

#include <cmath>

namespace nerf {

// Solves a x = b by Cholesky's method, n at most a dozen; false where a, of which the lower
// triangle is read, is not positive definite. Overwrites a.
template <int N>
bool SolvePositiveDefinite(double (&a)[N][N], const double (&b)[N], double* x) {
  double y[N];
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j <= i; ++j) {
      for (int k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      if (i != j) {
        a[i][j] /= a[j][j];
        continue;
      }
      if (!(a[i][i] > 0)) return false;
      a[i][i] = std::sqrt(a[i][i]);
    }
  }
  for (int i = 0; i < N; ++i) {
    y[i] = b[i];
    for (int k = 0; k < i; ++k) y[i] -= a[i][k] * y[k];
    y[i] /= a[i][i];
  }
  for (int i = N - 1; i >= 0; --i) {
    x[i] = y[i];
    for (int k = i + 1; k < N; ++k) x[i] -= a[k][i] * x[k];
    x[i] /= a[i][i];
  }
  return true;
}

}  // namespace nerf
