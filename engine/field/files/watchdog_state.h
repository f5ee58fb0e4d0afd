#pragma once

namespace nerf {

// What a Watchdog remembers; part of a checkpoint.
struct WatchdogState {
  double smoothed_loss = 0;  // bias-corrected by n_smoothed
  double best_loss = 0;      // lowest smoothed loss after the warm-up; 0: none yet
  int n_smoothed = 0;
  int n_without_samples = 0;  // steps in a row that trained nothing
  int n_recoveries = 0;
  float rate_factor = 1;  // multiplies the learning rate; halved by recoveries
  bool operator==(const WatchdogState&) const = default;
};

}  // namespace nerf
