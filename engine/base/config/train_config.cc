#include "engine/base/config/train_config.h"

#include <array>
#include <cmath>

#include "common/edit_distance.h"
#include "fmt/format.h"

namespace nerf {
namespace {

template <typename Enum, size_t n>
absl::StatusOr<Enum> ParseName(std::string_view field, std::string_view name,
                               const std::array<std::string_view, n>& names) {
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return absl::InvalidArgumentError(fmt::format("{}: {}", field, NotOneOf(name, names)));
}

constexpr std::array<std::string_view, 3> kBudgetNames = {"steps", "samples", "seconds"};
constexpr std::array<std::string_view, 4> kBackgroundNames = {"auto", "white", "black", "random"};
constexpr std::array<std::string_view, 2> kLossNames = {"huber", "mse"};

}  // namespace

absl::Status CheckBudgetAndSplit(const TrainConfig& config) {
  const Budget& budget = config.budget;
  const bool whole =
      budget.kind == BudgetKind::kSeconds || budget.amount == std::floor(budget.amount);
  const double most = budget.kind == BudgetKind::kSteps ? 4e9 : 1e15;
  if (!std::isfinite(budget.amount) || budget.amount <= 0 || budget.amount > most || !whole) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is not a budget; it must be a {} above 0 and at most {:g}",
                    BudgetKindName(budget.kind), budget.amount,
                    budget.kind == BudgetKind::kSeconds ? "number" : "whole number", most));
  }
  if (config.test_every < 0 || config.test_every == 1 || config.test_every > 1'000'000) {
    return absl::InvalidArgumentError(
        fmt::format("test_every: {} is not 0 (hold out none) or a number from 2 to 1000000",
                    config.test_every));
  }
  return absl::OkStatus();
}

std::string_view BudgetKindName(BudgetKind kind) { return kBudgetNames[static_cast<int>(kind)]; }
std::string_view BackgroundName(Background background) {
  return kBackgroundNames[static_cast<int>(background)];
}
std::string_view LossName(Loss loss) { return kLossNames[static_cast<int>(loss)]; }

absl::StatusOr<BudgetKind> ParseBudgetKind(std::string_view name) {
  return ParseName<BudgetKind>("budget", name, kBudgetNames);
}
absl::StatusOr<Background> ParseBackground(std::string_view name) {
  return ParseName<Background>("background", name, kBackgroundNames);
}
absl::StatusOr<Loss> ParseLoss(std::string_view name) {
  return ParseName<Loss>("settings.loss", name, kLossNames);
}

}  // namespace nerf
