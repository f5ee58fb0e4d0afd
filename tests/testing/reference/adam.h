#pragma once

#include <cstddef>

namespace nerf::reference {

// Adam's state of one parameter.
struct AdamState {
  double parameter = 0, first = 0, second = 0;
};

// Update number t (from 1) with gradient `gradient`, bias correction included.
// Source: Kingma and Ba 2015, algorithm 1.
AdamState AdamUpdate(AdamState state, double gradient, int t, double learning_rate, double beta1,
                     double beta2, double epsilon);

}  // namespace nerf::reference
