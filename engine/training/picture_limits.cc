#include "engine/training/picture_limits.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/config/step_size.h"
#include "engine/config/view_limits.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kPixelsPerSample = 3;

}  // namespace

double SamplesOfBudget(const TrainConfig& config, const DeviceFacts& device) {
  switch (config.budget.kind) {
    case BudgetKind::kSamples:
      return config.budget.amount;
    case BudgetKind::kSteps:
      return config.budget.amount * StepSizeOf(config).target_samples;
    case BudgetKind::kSeconds:
      break;
  }
  return config.budget.amount * UsualSamplesPerSecond(ClassOf(device));
}

double PixelsAlongBox(const SceneDescription& description) {
  const Aabb& box = description.geometry.box;
  const float side = box.Size().x;
  std::vector<double> pixels;
  for (const ViewDescription& view : description.train) {
    const Vec3 from = view.camera.camera_to_world.Column(3);
    const float distance = std::max(Norm(from - box.Center()), side / 2);
    pixels.push_back(static_cast<double>(view.camera.fl_x) * side / distance);
  }
  if (pixels.empty()) return 0;
  const auto middle = pixels.begin() + static_cast<std::ptrdiff_t>(pixels.size() / 2);
  std::nth_element(pixels.begin(), middle, pixels.end());
  return *middle;
}

int MaxSideOf(const TrainConfig& config, const SceneDescription& description,
              const DeviceFacts& device) {
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
      std::max(kMaxDefaultViewPixels, kPixelsPerSample * SamplesOfBudget(config, device) / n_views);
  if (largest <= limit) return 0;
  return std::max(1, static_cast<int>(side * std::sqrt(limit / largest)));
}

std::string ReductionText(const Reduction& reduction) {
  if (reduction.from.width == 0) return "";
  return fmt::format("{}x{} pixels reduced to {}x{}", reduction.from.width, reduction.from.height,
                     reduction.to.width, reduction.to.height);
}

}  // namespace nerf
