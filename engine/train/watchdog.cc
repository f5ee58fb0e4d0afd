#include "engine/train/watchdog.h"

#include <algorithm>
#include <cmath>

#include "common/error_reason.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kSmoothing = 0.98;  // of the loss per step: about the last fifty steps
constexpr int kMinSmoothed = 50;     // before that the smoothed loss is mostly noise
constexpr double kDivergenceFactor = 4;
constexpr double kDivergenceFloor = 0.01;  // below this mean loss the training works
constexpr int kMaxStepsWithoutSamples = 16;

}  // namespace

Watchdog::Verdict Watchdog::Observe(uint32_t step, const StepResult& result,
                                    double occupied_fraction) {
  if (!std::isfinite(result.loss) || !std::isfinite(result.squared_error)) {
    return Verdict::kNotFinite;
  }
  state_.n_without_samples = result.n_trained == 0 ? state_.n_without_samples + 1 : 0;
  if (occupied_fraction <= 0 || state_.n_without_samples >= kMaxStepsWithoutSamples) {
    return Verdict::kGridEmpty;
  }
  // A plain mean at first, an exponential one later: not biased towards the first value.
  state_.n_smoothed = std::min(state_.n_smoothed + 1, kMinSmoothed);
  const double keep = std::min(kSmoothing, 1 - 1.0 / state_.n_smoothed);
  state_.smoothed_loss = keep * state_.smoothed_loss + (1 - keep) * result.loss;
  if (step <= warmup_steps_ || state_.n_smoothed < kMinSmoothed) return Verdict::kHealthy;
  if (state_.best_loss == 0 || state_.smoothed_loss < state_.best_loss) {
    state_.best_loss = state_.smoothed_loss;
  }
  const bool diverging = state_.smoothed_loss > kDivergenceFloor &&
                         state_.smoothed_loss > kDivergenceFactor * state_.best_loss;
  return diverging ? Verdict::kDiverging : Verdict::kHealthy;
}

absl::Status Watchdog::BeginRecovery(Verdict verdict, uint32_t step, bool halve_rate) {
  if (state_.n_recoveries >= kMaxRecoveries) {
    return WithReason(
        absl::AbortedError(fmt::format("training failed at step {}: {}, after {} recoveries", step,
                                       VerdictText(verdict), state_.n_recoveries)),
        verdict == Verdict::kGridEmpty ? reason::kGridEmpty : reason::kTrainingDiverged,
        {{"step", fmt::format("{}", step)}});
  }
  ++state_.n_recoveries;
  if (halve_rate) state_.rate_factor *= 0.5f;
  state_.smoothed_loss = 0;
  state_.n_smoothed = 0;
  state_.n_without_samples = 0;
  return absl::OkStatus();
}

std::string_view VerdictText(Watchdog::Verdict verdict) {
  switch (verdict) {
    case Watchdog::Verdict::kHealthy:
      return "healthy";
    case Watchdog::Verdict::kNotFinite:
      return "the loss or a weight is not finite";
    case Watchdog::Verdict::kDiverging:
      return "the loss grows";
    case Watchdog::Verdict::kGridEmpty:
      return "rays meet no sample to train: the occupancy grid is empty, or alpha_threshold too "
             "high";
  }
  return "";
}

}  // namespace nerf
