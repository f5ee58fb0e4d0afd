#pragma once

#include <cstdint>

namespace nerf {

// What steps have cost, for a forecast of what several ranks would take. Sums over the steps.
struct RankCosts {
  int64_t n_steps = 0;
  int64_t n_trained = 0;  // samples
  double seconds = 0;
  double bytes_received = 0;  // that rank 0 of the asked number of ranks would receive

  RankCosts Since(const RankCosts& before) const {
    return {n_steps - before.n_steps, n_trained - before.n_trained, seconds - before.seconds,
            bytes_received - before.bytes_received};
  }
};

// A step to come.
struct StepOutlook {
  double n_trained = 0;  // samples
  double step = 0;       // steps finished before it
  double fraction = 0;   // of the budget, spent before it
};

}  // namespace nerf
