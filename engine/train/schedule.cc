#include "engine/train/schedule.h"

#include <algorithm>
#include <cmath>

#include "engine/base/config/step_size.h"

namespace nerf {
namespace {

constexpr double kWarmupStart = 0.01;
constexpr double kDecayBegin = 0.7;    // share of the budget
constexpr double kDecayEnd = 0.01;     // of the rate
constexpr double kLongStepsEnd = 0.5;  // share of the budget
constexpr double kDistortionEnd = 0.5;
constexpr double kOneRayEnd = 0.5;  // 0.3 and 0.7 are no better (scripts/figures.py findings)
constexpr double kGrowthBegin = 0.3, kGrowthEnd = 0.8;

}  // namespace

double FractionSpent(const Budget& budget, uint32_t step, int64_t n_trained, double seconds) {
  double spent = seconds;
  if (budget.kind == BudgetKind::kSteps) spent = step;
  if (budget.kind == BudgetKind::kSamples) spent = static_cast<double>(n_trained);
  return std::clamp(spent / budget.amount, 0.0, 1.0);
}

kernels::LossShape LossShapeOf(const TrainConfig& config) {
  kernels::LossShape shape;
  if (config.loss == Loss::kHuber) shape.huber_delta = config.huber_delta;
  return shape;
}

float AverageDecay(const TrainConfig& config, int n_steps) {
  return static_cast<float>(std::pow(static_cast<double>(config.ema_decay), n_steps));
}

float LearningRate(const TrainConfig& config, uint32_t step, double fraction) {
  double rate = config.learning_rate;
  const auto warmup_steps = static_cast<uint32_t>(config.warmup_steps);
  if (step < warmup_steps) {
    rate *= kWarmupStart + (1 - kWarmupStart) * step / warmup_steps;
  }
  const double decayed = std::clamp((fraction - kDecayBegin) / (1 - kDecayBegin), 0.0, 1.0);
  return static_cast<float>(rate * (1 + (kDecayEnd - 1) * decayed));
}

float StepScale(const TrainConfig& config, double fraction) {
  const double left = std::max(0.0, 1 - fraction / kLongStepsEnd);
  const float initial =
      config.initial_step_scale == kAutoSetting ? kInitialStepScale : config.initial_step_scale;
  return static_cast<float>(1 + (initial - 1) * left);
}

int TargetSamples(const TrainConfig& config, double fraction) {
  const double grown =
      std::clamp((fraction - kGrowthBegin) / (kGrowthEnd - kGrowthBegin), 0.0, 1.0);
  const StepSize size = StepSizeOf(config);
  return static_cast<int>(
      std::lround(size.target_samples * std::pow(double{size.batch_growth}, grown)));
}

int TrainedRaysPerPixel(const TrainConfig& config, double fraction) {
  return fraction < kOneRayEnd ? 1 : RaysPerPixel(config);
}

double ShareOfTime(const TrainConfig& config, double fraction) {
  if (config.budget.kind != BudgetKind::kSteps) return fraction;
  // The integral of batch_growth^x, with x from 0 to 1 between the two ends and constant beyond.
  const double growth = StepSizeOf(config).batch_growth;
  const auto samples_until = [&](double f) {
    const double x = std::clamp((f - kGrowthBegin) / (kGrowthEnd - kGrowthBegin), 0.0, 1.0);
    const double grown = growth > 1 ? (std::pow(growth, x) - 1) / std::log(growth) : x;
    return std::min(f, kGrowthBegin) + (kGrowthEnd - kGrowthBegin) * grown +
           growth * std::max(0.0, f - kGrowthEnd);
  };
  return samples_until(fraction) / samples_until(1);
}

float DistortionWeight(const TrainConfig& config, double fraction) {
  return static_cast<float>(config.distortion * std::max(0.0, 1 - fraction / kDistortionEnd));
}

}  // namespace nerf
