#include "common/messages/training_config.h"

#include <cmath>
#include <limits>
#include <utility>

namespace nerf {
namespace {

constexpr std::pair<std::string_view, v1::TrainingConfig::Background> kBackgrounds[] = {
    {"auto", v1::TrainingConfig::AUTO},
    {"white", v1::TrainingConfig::WHITE},
    {"black", v1::TrainingConfig::BLACK},
    {"random", v1::TrainingConfig::RANDOM}};

}  // namespace

std::string_view BackgroundWord(v1::TrainingConfig::Background background) {
  for (const auto& [word, value] : kBackgrounds) {
    if (value == background) return word;
  }
  return kBackgrounds[0].first;
}

std::optional<v1::TrainingConfig::Background> ParseBackgroundWord(std::string_view word) {
  for (const auto& [known, value] : kBackgrounds) {
    if (known == word) return value;
  }
  return std::nullopt;
}

std::optional<BudgetWords> GetBudget(const v1::TrainingConfig& config) {
  switch (config.budget_case()) {
    case v1::TrainingConfig::kSteps:
      return BudgetWords{"steps", static_cast<double>(config.steps())};
    case v1::TrainingConfig::kSamples:
      return BudgetWords{"samples", config.samples()};
    case v1::TrainingConfig::kSeconds:
      return BudgetWords{"seconds", config.seconds()};
    case v1::TrainingConfig::BUDGET_NOT_SET:
      break;
  }
  return std::nullopt;
}

bool SetBudget(const BudgetWords& budget, v1::TrainingConfig* config) {
  const double amount = budget.amount;
  if (budget.kind == "samples") {
    config->set_samples(amount);
  } else if (budget.kind == "seconds") {
    config->set_seconds(amount);
  } else if (budget.kind == "steps" && amount >= 0 && amount == std::floor(amount) &&
             amount <= std::numeric_limits<uint32_t>::max()) {
    config->set_steps(static_cast<uint32_t>(amount));
  } else {
    return false;
  }
  return true;
}

}  // namespace nerf
