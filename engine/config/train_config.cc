#include "engine/config/train_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/edit_distance.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

using C = TrainConfig;

constexpr std::array kFields = {
    ConfigField{"alpha_threshold", &C::alpha_threshold, 0, 0.99,
                "samples of a smaller alpha are left out"},
    ConfigField{"batch_growth", &C::batch_growth, 1, 64,
                "target_samples grows to so many times itself from 30% to 80% of the budget"},
    ConfigField{"beta1", &C::beta1, 0, 0.9999, "Adam: decay of the first moment"},
    ConfigField{"beta2", &C::beta2, 0, 0.99999, "Adam: decay of the second moment"},
    ConfigField{"coarse_share", &C::coarse_share, 0, 1,
                "on the CPU: share of the budget until which the finer levels of the hash encoding "
                "come in, one after another; 0: all from the start"},
    ConfigField{
        "cone", &C::cone, -1, 0.1,
        "a step is at least this share of the distance from the camera; negative: the scene's own"},
    ConfigField{"cuda_deterministic", &C::cuda_deterministic, 0, 1,
                "on CUDA: 1 sums gradients so that one seed gives the same bytes"},
    ConfigField{"cuda_fp32", &C::cuda_fp32, 0, 1,
                "on CUDA: 1 trains in fp32 throughout; 0: half precision with fp32 masters"},
    ConfigField{"distortion", &C::distortion, 0, 10,
                "weight in the loss of how far apart a ray's weights lie; falls to 0 at half of "
                "the budget"},
    ConfigField{"ema_decay", &C::ema_decay, 0, 0.9999,
                "moving average of the weights for evaluation, a step; 0: none"},
    ConfigField{"epsilon", &C::epsilon, 1e-30, 1, "Adam: added to the root of the second moment"},
    ConfigField{"finest_resolution", &C::finest_resolution, 32, 16384,
                "hash encoding: cells of the finest level along the level-0 box"},
    ConfigField{"grid_decay", &C::grid_decay, 0.5, 1,
                "occupancy grid: decay of a cell at an update"},
    ConfigField{"grid_resolution", &C::grid_resolution, 32, 256,
                "occupancy grid: cells along a side, a power of two"},
    ConfigField{"grid_threshold", &C::grid_threshold, 0, 10,
                "occupancy grid: density * step above which a cell is occupied, at most the mean"},
    ConfigField{"grid_update_interval", &C::grid_update_interval, 1, 1024,
                "occupancy grid: steps between updates"},
    ConfigField{
        "half_table", &C::half_table, 0, 1,
        "on the CPU: 1 reads the hash table in half precision, with fp32 masters, and keeps its "
        "moments in bf16; 0: all in fp32"},
    ConfigField{"huber_delta", &C::huber_delta, 1e-4, 10, "Huber loss: where it turns linear"},
    ConfigField{"initial_density", &C::initial_density, 1e-3, 1e3,
                "optical depth of an untrained field along a side of the level-0 box"},
    ConfigField{"initial_rays", &C::initial_rays, 16, 65536, "rays of the first step"},
    ConfigField{"initial_step_scale", &C::initial_step_scale, 1, 64,
                "steps along rays are so much longer at first; falls to 1 at half of the budget"},
    ConfigField{"learning_rate", &C::learning_rate, 1e-7, 1, "Adam: peak learning rate"},
    ConfigField{"log2_hashmap_size", &C::log2_hashmap_size, 12, 22,
                "hash encoding: log2 of the entries of a level"},
    ConfigField{"loss", &C::loss, 0, 0, "huber or mse"},
    ConfigField{"loss_scale", &C::loss_scale, 1, 65536,
                "loss is multiplied by this before the backward pass"},
    ConfigField{"max_rays", &C::max_rays, 16, 1048576, "most rays of a step"},
    ConfigField{"min_transmittance", &C::min_transmittance, 0, 0.5,
                "a ray ends at the sample that leaves less light than this"},
    ConfigField{"mlp_l2", &C::mlp_l2, 0, 1, "L2 penalty on the MLPs' weights"},
    ConfigField{"mlp_rate", &C::mlp_rate, 1e-4, 100,
                "Adam: learning rate of the MLPs over that of the hash table"},
    ConfigField{"n_features_per_level", &C::n_features_per_level, 2, 4,
                "hash encoding: features of an entry, 4 on 8 levels or 2 on 16"},
    ConfigField{"near", &C::near, -1, 1e6,
                "rays start so far from the camera; negative: the scene's own. Training units: the "
                "level-0 box is 3 of them wide (Blender), 1 (instant-ngp) or 2 (others)"},
    ConfigField{"step", &C::step, -1, 1e6,
                "marching step, in training units as near; negative: the scene's own, 1/512 of "
                "the level-0 box's diagonal"},
    ConfigField{"target_samples", &C::target_samples, 256, 4194304,
                "trained samples of a step that the number of rays is steered to, at first"},
    ConfigField{"warmup_steps", &C::warmup_steps, 0, 100000,
                "steps over which the learning rate rises from 1%"},
};

const ConfigField* FindField(std::string_view key) {
  for (const ConfigField& field : kFields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

// A whole number as people write large ones: 1000000, 1e6, 1M.
bool ParseWhole(std::string_view text, double* number) {
  std::string decimal(text);
  for (const auto& [letter, exponent] : {std::pair{'k', "e3"}, {'M', "e6"}, {'G', "e9"}}) {
    // The parser scales: 4.1 * 1e6 is no whole number in doubles.
    if (text.size() > 1 && text.back() == letter) decimal.replace(text.size() - 1, 1, exponent);
  }
  return absl::SimpleAtod(decimal, number) && *number == std::floor(*number);
}

absl::Status UnknownKey(std::string_view key) {
  key = key.substr(0, 64);
  std::vector<std::string> keys;
  for (const ConfigField& field : kFields) keys.emplace_back(field.key);
  return absl::InvalidArgumentError(
      fmt::format("settings.{}: no such setting{}", key, DidYouMean(key, keys)));
}

template <typename Enum, size_t n>
absl::StatusOr<Enum> ParseName(std::string_view field, std::string_view name,
                               const std::array<std::string_view, n>& names) {
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}' is not one of {}", field, name.substr(0, 64), fmt::join(names, ", ")));
}

constexpr std::array<std::string_view, 3> kBudgetNames = {"steps", "samples", "seconds"};
constexpr std::array<std::string_view, 4> kBackgroundNames = {"auto", "white", "black", "random"};
constexpr std::array<std::string_view, 2> kLossNames = {"huber", "mse"};
constexpr std::array<std::string_view, 2> kMethods = {"ngp", "ngp-autograd"};

}  // namespace

std::span<const ConfigField> TrainConfigFields() { return kFields; }

absl::Status SetConfigField(std::string_view key, std::string_view value, TrainConfig* config) {
  const ConfigField* field = FindField(key);
  if (field == nullptr) return UnknownKey(key);
  if (auto* member = std::get_if<Loss C::*>(&field->member)) {
    NERF_ASSIGN_OR_RETURN(Loss loss, ParseLoss(value));
    config->*(*member) = loss;
    return absl::OkStatus();
  }
  const bool whole = std::holds_alternative<int C::*>(field->member);
  double number = 0;
  const bool parsed = whole ? ParseWhole(value, &number) : absl::SimpleAtod(Abseil(value), &number);
  if (!parsed || !std::isfinite(number)) {
    return absl::InvalidArgumentError(fmt::format("settings.{}: '{}' is not a {}", key,
                                                  value.substr(0, 64),
                                                  whole ? "whole number" : "number"));
  }
  if (number < field->min || number > field->max) {
    return absl::InvalidArgumentError(fmt::format("settings.{}: {} is not between {} and {}", key,
                                                  value.substr(0, 64), field->min, field->max));
  }
  const int integer = whole ? static_cast<int>(number) : 0;
  const bool power_of_two = key == "grid_resolution" || key == "n_features_per_level";
  if (power_of_two && (integer & (integer - 1)) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("settings.{}: {} is not a power of two", key, integer));
  }
  if (key == "step" && static_cast<float>(number) == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "settings.step: {} is no step; it must be above 0, or negative for the scene's own",
        value.substr(0, 64)));
  }
  if (whole) {
    config->*std::get<int C::*>(field->member) = integer;
  } else {
    config->*std::get<float C::*>(field->member) = static_cast<float>(number);
  }
  return absl::OkStatus();
}

std::map<std::string, std::string> ConfigSettings(const TrainConfig& config) {
  std::map<std::string, std::string> settings;
  for (const ConfigField& field : kFields) {
    std::string& value = settings[std::string(field.key)];
    if (auto* integer = std::get_if<int C::*>(&field.member)) {
      value = fmt::format("{}", config.*(*integer));
    } else if (auto* number = std::get_if<float C::*>(&field.member)) {
      value =
          fmt::format("{}", config.*(*number));  // shortest text that reads back to the same bits
    } else {
      value = LossName(config.*std::get<Loss C::*>(field.member));
    }
  }
  return settings;
}

absl::Status ValidateConfig(const TrainConfig& config) {
  if (std::find(kMethods.begin(), kMethods.end(), config.method) == kMethods.end()) {
    return absl::InvalidArgumentError(fmt::format(
        "method: '{}' is not one of {}", config.method.substr(0, 64), fmt::join(kMethods, ", ")));
  }
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
