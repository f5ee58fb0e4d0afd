#include "server/rpc/convert/convert_config.h"

#include <fmt/format.h>

#include <cstdint>

#include "common/rpc/training_config.h"
#include "engine/config/start_rank.h"
#include "engine/methods/describe/method_descriptions.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

// Longest key or value of a setting.
constexpr size_t kMaxSettingLength = 64;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::optional<Background> BackgroundFromProto(v1::TrainingConfig::Background background) {
  if (!v1::TrainingConfig::Background_IsValid(background)) return std::nullopt;
  return ParseBackground(BackgroundWord(background)).value_or(Background::kAuto);
}

// The budget, or the default one. *field names its field in the request.
Budget ParseBudget(const v1::TrainingConfig& proto, std::string* field) {
  const std::optional<BudgetWords> words = GetBudget(proto);
  *field = words.has_value() ? words->kind : "budget";
  Budget budget;
  if (!words.has_value()) return budget;
  return {ParseBudgetKind(words->kind).value_or(budget.kind), words->amount};
}

}  // namespace

TrainConfig ParseTrainConfig(std::string_view field, const v1::TrainingConfig& proto,
                             RequestCheck& check) {
  const absl::StatusOr<TrainConfig> of_method =
      DefaultConfig(proto.method().empty() ? TrainConfig().method : proto.method());
  check.Require(of_method.ok(), fmt::format("{}.method", field), Message(of_method.status()));
  // If the method is unknown, the other fields are checked against the default method.
  const TrainConfig defaults = of_method.value_or(TrainConfig());
  TrainConfig config = defaults;
  const auto require_valid = [&](std::string_view name, const TrainConfig& changed) {
    const absl::Status status = ValidateConfig(changed);
    check.Require(status.ok(), fmt::format("{}.{}", field, name), Message(status));
  };
  // ValidateConfig stops at its first problem, so each field is checked on its own.
  {
    TrainConfig changed = defaults;
    std::string name;
    changed.budget = config.budget = ParseBudget(proto, &name);
    require_valid(name, changed);
  }
  if (proto.has_test_every()) {
    TrainConfig changed = defaults;
    // Clamped: a value beyond int is out of range anyway.
    changed.test_every = config.test_every =
        static_cast<int>(std::min<uint32_t>(proto.test_every(), INT32_MAX));
    require_valid("test_every", changed);
  }
  config.seed = proto.seed();
  const std::optional<Background> background = BackgroundFromProto(proto.background());
  check.Require(background.has_value(), fmt::format("{}.background", field),
                "is not a background known to this server");
  config.background = background.value_or(Background::kAuto);
  for (const auto& [key, value] : proto.settings()) {
    const std::string name =
        fmt::format("{}.settings[{}]", field, key.substr(0, kMaxSettingLength));
    if (key.size() > kMaxSettingLength || value.size() > kMaxSettingLength) {
      check.Require(false, name,
                    fmt::format("key and value must be at most {} bytes", kMaxSettingLength));
      continue;
    }
    const absl::Status status = SetConfigField(key, value, &config);
    check.Require(status.ok(), name, Message(status));
  }
  TrainConfig with_settings = config;
  with_settings.budget = defaults.budget;
  with_settings.test_every = defaults.test_every;
  require_valid("settings", with_settings);
  return config;
}

std::optional<InitReference> ParseInit(std::string_view field, const v1::TrainingConfig& proto,
                                       RequestCheck& check) {
  if (!proto.has_init()) return std::nullopt;
  const v1::Init& init = proto.init();
  InitReference reference;
  if (init.has_model() && init.model() == kNoStart) {
    reference.kind = InitReference::Kind::kNone;
  } else if (init.has_model() && init.model() == kAutoStart) {
    reference.kind = InitReference::Kind::kAuto;
  } else if (init.has_model()) {
    reference.kind = InitReference::Kind::kModel;
    reference.source =
        TakeOr(ParseModelName(fmt::format("{}.init.model", field), init.model()), check);
  } else if (init.has_checkpoint()) {
    const std::string name = fmt::format("{}.init.checkpoint", field);
    reference.kind = InitReference::Kind::kCheckpoint;
    const CheckpointKey key = TakeOr(ParseCheckpointName(name, init.checkpoint()), check);
    reference.source = key.job;
    reference.step = key.step.value_or(0);
    check.Require(key.step.has_value() || key.job.id.empty(), name,
                  "must name a step, not the newest checkpoint");
  } else {
    check.Require(false, fmt::format("{}.init", field), "must name a model or a checkpoint");
  }
  check.Require(init.scope().empty() || init.scope() == "all", fmt::format("{}.init.scope", field),
                "must be all (or empty)");
  return reference;
}

JobConfig ToJobConfig(const TrainConfig& config) {
  JobConfig result;
  result.method = config.method;
  result.seed = config.seed;
  result.budget_kind = std::string(BudgetKindName(config.budget.kind));
  result.budget_amount = config.budget.amount;
  result.background = std::string(BackgroundName(config.background));
  result.test_every = static_cast<uint32_t>(config.test_every);
  result.settings = ConfigSettings(config);
  return result;
}

v1::TrainingConfig ToProto(const JobConfig& config, const std::optional<InitReference>& init) {
  v1::TrainingConfig proto;
  proto.set_method(config.method);
  proto.set_seed(config.seed);
  SetBudget({config.budget_kind, config.budget_amount}, &proto);
  proto.set_background(ParseBackgroundWord(config.background).value_or(v1::TrainingConfig::AUTO));
  proto.set_test_every(config.test_every);
  for (const auto& [key, value] : config.settings) (*proto.mutable_settings())[key] = value;
  if (init.has_value()) {
    v1::Init* added = proto.mutable_init();
    if (init->kind == InitReference::Kind::kModel) {
      added->set_model(ModelName(init->source));
    } else {
      added->set_checkpoint(CheckpointName(init->source, init->step));
    }
    added->set_scope(init->scope);
  }
  return proto;
}

}  // namespace nerf
