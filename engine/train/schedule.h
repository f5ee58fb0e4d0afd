#pragma once

#include <cstdint>

#include "engine/config/train_config.h"

namespace nerf {

// Share of the budget that is spent, in [0, 1]; 1 is reached exactly when the budget is.
double FractionSpent(const Budget& budget, uint32_t step, int64_t n_trained, double seconds);

// Learning rate of the step after `step` finished ones:
//   learning_rate * (1% rising to 100% over warmup_steps) * 0.33 at each of 50%, 75% and 90% spent.
// fraction in [0, 1].
float LearningRate(const TrainConfig& config, uint32_t step, double fraction);

}  // namespace nerf
