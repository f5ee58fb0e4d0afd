#include "engine/tool/picture_limits.h"

#include <algorithm>
#include <cmath>

#include "engine/config/setting.h"
#include "engine/config/view_limits.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kPixelsPerSample = 3;
// Usual rates, for budgets in seconds.
constexpr double kCpuSamplesPerSecond = 1e6, kCudaSamplesPerSecond = 2e7;

// Samples that the budget pays for, roughly.
double SamplesOf(const TrainConfig& config, std::string_view device) {
  switch (config.budget.kind) {
    case BudgetKind::kSamples:
      return config.budget.amount;
    case BudgetKind::kSteps:
      return config.budget.amount * config.target_samples;
    case BudgetKind::kSeconds:
      break;
  }
  return config.budget.amount *
         (DeviceSetOf(device) == kOnCpu ? kCpuSamplesPerSecond : kCudaSamplesPerSecond);
}

}  // namespace

int MaxSideOf(const TrainConfig& config, const SceneDescription& description,
              std::string_view device) {
  if (config.max_side >= 0) return config.max_side;
  double largest = 0;
  int side = 0;
  for (const ViewDescription& view : description.train) {
    const double area = static_cast<double>(view.camera.width) * view.camera.height;
    if (area <= largest) continue;
    largest = area;
    side = std::max(view.camera.width, view.camera.height);
  }
  const auto n_views = static_cast<double>(std::max<size_t>(description.train.size(), 1));
  const double limit =
      std::max(kMaxDefaultViewPixels, kPixelsPerSample * SamplesOf(config, device) / n_views);
  if (largest <= limit) return 0;
  return std::max(1, static_cast<int>(side * std::sqrt(limit / largest)));
}

std::string ReductionText(const Reduction& reduction) {
  if (reduction.from.width == 0) return "";
  return fmt::format("{}x{} pixels reduced to {}x{}", reduction.from.width, reduction.from.height,
                     reduction.to.width, reduction.to.height);
}

}  // namespace nerf
