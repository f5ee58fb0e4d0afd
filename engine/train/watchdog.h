#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/field/files/watchdog_state.h"
#include "engine/train/training_step.h"

namespace nerf {

// Judges each step. The trainer acts on the verdict: it restores weights or re-opens the grid.
class Watchdog {
 public:
  enum class Verdict {
    kHealthy,
    kNotFinite,  // the loss is NaN or infinite (NaN also if a weight is not finite)
    kDiverging,  // the smoothed loss is above 4 times its best, and above an absolute floor
    kGridEmpty,  // no cell is occupied, or no sample was trained for 16 steps
  };
  static constexpr int kMaxRecoveries = 3;

  explicit Watchdog(uint32_t warmup_steps) : warmup_steps_(warmup_steps) {}

  // `step` counts the finished steps, this one included.
  Verdict Observe(uint32_t step, const StepResult& result, double occupied_fraction);

  // Counts a recovery, halves the rate if `halve_rate`, and restarts the smoothed loss. Aborted
  // with reason TRAINING_DIVERGED or GRID_EMPTY when all recoveries are used up.
  absl::Status BeginRecovery(Verdict verdict, uint32_t step, bool halve_rate);

  const WatchdogState& state() const { return state_; }
  void Restore(const WatchdogState& state) { state_ = state; }

 private:
  const uint32_t warmup_steps_;
  WatchdogState state_;
};

// "the loss or a weight is not finite", ...
std::string_view VerdictText(Watchdog::Verdict verdict);

}  // namespace nerf
