#include "engine/base/messages/config_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/messages/training_config.h"
#include "engine/base/method_list/method_descriptions.h"

namespace nerf {
namespace {

// Longest key or value of a setting. No value that ToMessage writes is longer.
constexpr size_t kMaxSettingLength = 128;

// The budget, or `otherwise`. *field names its field in the message.
Budget BudgetOf(const v1::TrainingConfig& message, const Budget& otherwise, std::string* field) {
  const std::optional<BudgetWords> words = GetBudget(message);
  *field = words.has_value() ? words->kind : "budget";
  if (!words.has_value()) return otherwise;
  return {ParseBudgetKind(words->kind).value_or(otherwise.kind), words->amount};
}

}  // namespace

TrainConfig ReadConfig(std::string_view field, const v1::TrainingConfig& message,
                       Problems* problems) {
  const auto require = [&](const absl::Status& status, std::string_view name) {
    problems->Add(fmt::format("{}.{}", field, name), status);
  };
  const absl::StatusOr<TrainConfig> of_method =
      DefaultConfig(message.method().empty() ? TrainConfig().method : message.method());
  require(of_method.status(), "method");
  // If the method is unknown, the other fields are checked against the default method.
  const TrainConfig defaults = of_method.value_or(TrainConfig());
  TrainConfig config = defaults;
  // ValidateConfig stops at its first problem, so each field is checked on its own.
  {
    TrainConfig changed = defaults;
    std::string name;
    changed.budget = config.budget = BudgetOf(message, defaults.budget, &name);
    require(ValidateConfig(changed), name);
  }
  if (message.has_test_every()) {
    TrainConfig changed = defaults;
    // Clamped: a value beyond int is out of range anyway.
    changed.test_every = config.test_every =
        static_cast<int>(std::min<uint32_t>(message.test_every(), INT32_MAX));
    require(ValidateConfig(changed), "test_every");
  }
  config.seed = message.seed();
  if (v1::TrainingConfig::Background_IsValid(message.background())) {
    config.background =
        ParseBackground(BackgroundWord(message.background())).value_or(Background::kAuto);
  } else {
    require(absl::InvalidArgumentError("is not a background known to this version"), "background");
  }
  // In the order of the keys, so that problems come in the same order.
  for (const auto& [key, value] :
       std::map<std::string, std::string>(message.settings().begin(), message.settings().end())) {
    const std::string name = fmt::format("settings[{}]", key.substr(0, kMaxSettingLength));
    if (key.size() > kMaxSettingLength || value.size() > kMaxSettingLength) {
      require(absl::InvalidArgumentError(
                  fmt::format("key and value must be at most {} bytes", kMaxSettingLength)),
              name);
      continue;
    }
    require(SetConfigField(key, value, &config), name);
  }
  TrainConfig with_settings = config;
  with_settings.budget = defaults.budget;
  with_settings.test_every = defaults.test_every;
  require(ValidateConfig(with_settings), "settings");
  return config;
}

v1::TrainingConfig ToMessage(const TrainConfig& config) {
  v1::TrainingConfig message;
  message.set_method(config.method);
  message.set_seed(config.seed);
  SetBudget({std::string(BudgetKindName(config.budget.kind)), config.budget.amount}, &message);
  message.set_background(
      ParseBackgroundWord(BackgroundName(config.background)).value_or(v1::TrainingConfig::AUTO));
  message.set_test_every(static_cast<uint32_t>(config.test_every));
  for (const auto& [key, value] : ConfigSettings(config))
    (*message.mutable_settings())[key] = value;
  return message;
}

}  // namespace nerf
