#include "engine/program/session/new_total.h"

#include <algorithm>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::Status Refused(const std::string& message) {
  return WithReason(absl::InvalidArgumentError(message), reason::kFieldInvalid);
}

// "20003412 samples".
std::string Spent(BudgetKind kind, const TrainState& state) {
  switch (kind) {
    case BudgetKind::kSteps:
      return fmt::format("{} steps", state.step);
    case BudgetKind::kSamples:
      return fmt::format("{} samples", state.n_trained);
    case BudgetKind::kSeconds:
      break;
  }
  return fmt::format("{:.1f} seconds", state.seconds);
}

double ShareSpent(const TrainState& state) {
  return FractionSpent(state.config.budget, state.step, state.n_trained, state.seconds);
}

// How the schedules go on once `spent` of the new budget is spent. What a training gained while its
// rate fell is lost when the rate rises again, so one that ended has its schedules anew over what
// is left: 20 M samples of lego_200 extended to 40 M end 0.2 dB above those whose schedules go on
// at the share that is spent. One whose rate had not begun to fall goes on as if it had had the new
// budget from its beginning.
ScheduleLine NextSchedule(const TrainState& before, double spent) {
  constexpr double kRateFallsFrom = 0.7;  // LearningRate
  const double spent_before = ShareSpent(before);
  if (spent_before == 0) return {};
  const ScheduleLine& line = before.schedule;
  const double fallen =
      std::clamp((line.At(spent_before) - kRateFallsFrom) / (1 - kRateFallsFrom), 0.0, 1.0);
  // The line so far, to the end of the new budget.
  const ScheduleLine longer = {line.from * spent / spent_before, line.start};
  const double start = longer.At(spent) * (1 - fallen);
  if (longer.from == 0 && fallen == 0) return {};
  return {spent, start};
}

}  // namespace

absl::Status SetNewTotal(const Budget& total, const std::string& path, TrainState* state) {
  const Budget before = state->config.budget;
  if (total == before) return absl::OkStatus();
  TrainConfig config = state->config;
  config.budget = total;
  if (const absl::Status status = CheckBudgetAndSplit(config); !status.ok())
    return Refused(std::string(status.message()));
  if (total.kind == BudgetKind::kSeconds && before.kind != BudgetKind::kSeconds) {
    return Refused(fmt::format(
        "{} has a budget in {} and stores no training time: its new total must be in samples or "
        "steps, not seconds",
        path, BudgetKindName(before.kind)));
  }
  if (FractionSpent(total, state->step, state->n_trained, state->seconds) >= 1) {
    return Refused(fmt::format("{} has {} already: the new total must be above that, not {}", path,
                               Spent(total.kind, *state), total.amount));
  }
  const TrainState old = *state;
  state->config.budget = total;
  state->schedule = NextSchedule(old, ShareSpent(*state));
  // As in every checkpoint of such a budget.
  if (total.kind != BudgetKind::kSeconds) state->seconds = 0;
  return absl::OkStatus();
}

}  // namespace nerf
