#include "tests/testing/reference/adam.h"

#include <cmath>

namespace nerf::reference {

AdamState AdamUpdate(AdamState state, double gradient, int t, double learning_rate, double beta1,
                     double beta2, double epsilon) {
  state.first = beta1 * state.first + (1 - beta1) * gradient;
  state.second = beta2 * state.second + (1 - beta2) * gradient * gradient;
  const double first_unbiased = state.first / (1 - std::pow(beta1, t));
  const double second_unbiased = state.second / (1 - std::pow(beta2, t));
  state.parameter -= learning_rate * first_unbiased / (std::sqrt(second_unbiased) + epsilon);
  return state;
}

}  // namespace nerf::reference
