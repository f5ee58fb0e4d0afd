#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nerf/v1/training_job.pb.h"

namespace nerf {

// The words of a training config, as settings, flags and the engine's messages write them. Every
// program converts between these words and the API's enums and fields here. The same words are in
// engine/base/config/train_config.cc; a test compares both.

// "auto", "white", "black" or "random". Unspecified and unknown values are "auto".
std::string_view BackgroundWord(v1::TrainingConfig::Background background);
// Inverse; nullopt for any other word.
std::optional<v1::TrainingConfig::Background> ParseBackgroundWord(std::string_view word);

// How long to train: `amount` of "steps", "samples" or "seconds".
struct BudgetWords {
  std::string kind;
  double amount = 0;
  bool operator==(const BudgetWords&) const = default;
};

// The budget of a config; nullopt where it has none.
std::optional<BudgetWords> GetBudget(const v1::TrainingConfig& config);
// Sets the budget. Returns false, and changes nothing, for an unknown kind or a number of steps
// that is not a uint32.
bool SetBudget(const BudgetWords& budget, v1::TrainingConfig* config);

}  // namespace nerf
