#include "engine/base/method_list/method_descriptions.h"

#include <algorithm>

#include "common/edit_distance.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/base/config/start_shape.h"
#include "fmt/format.h"

namespace nerf {

#define NERF_METHOD(folder, Name) const MethodDescription& Describe##Name();
#include "engine/base/method_list/method_list.inc"
#undef NERF_METHOD

namespace {

std::vector<const MethodDescription*>& Registry() {
  static auto& registry = *new std::vector<const MethodDescription*>{
#define NERF_METHOD(folder, Name) &Describe##Name(),
#include "engine/base/method_list/method_list.inc"
#undef NERF_METHOD
  };
  return registry;
}

const Setting* FindSetting(const MethodDescription& method, std::string_view key) {
  for (const Setting& setting : method.settings()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

absl::Status UnknownMethod(std::string_view name) {
  std::vector<std::string_view> names;
  for (const MethodDescription* method : Registry()) names.push_back(method->name());
  return absl::InvalidArgumentError(fmt::format("method: {}", NotOneOf(name, names)));
}

absl::Status UnknownSetting(const MethodDescription& method, std::string_view key) {
  key = key.substr(0, 64);
  const bool is_another = std::any_of(
      Registry().begin(), Registry().end(),
      [&](const MethodDescription* other) { return FindSetting(*other, key) != nullptr; });
  if (is_another) {
    return absl::InvalidArgumentError(
        fmt::format("settings.{}: method {} has no such setting", key, method.name()));
  }
  std::vector<std::string> keys;
  for (const Setting& setting : method.settings()) keys.emplace_back(setting.key);
  return absl::InvalidArgumentError(
      fmt::format("settings.{}: no such setting{}", key, DidYouMean(key, keys)));
}

// Whether some of `devices`, which `who` names, honor every setting that is not at its default.
absl::Status CheckHonored(const TrainConfig& config, DeviceSet devices, const std::string& who) {
  const MethodDescription& method = MethodDescriptionOf(config);
  const TrainConfig defaults = method.Defaults();
  for (const Setting& setting : method.settings()) {
    if ((setting.devices & devices) != 0 || setting.is_ignored_elsewhere ||
        SettingText(setting, config) == SettingText(setting, defaults)) {
      continue;
    }
    return NotHonored(setting, who, defaults);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<const MethodDescription*> MethodDescriptions() { return Registry(); }

const MethodDescription* FindMethodDescription(std::string_view name) {
  for (const MethodDescription* method : Registry()) {
    if (method->name() == name) return method;
  }
  return nullptr;
}

const MethodDescription& MethodDescriptionOf(const TrainConfig& config) {
  const MethodDescription* method = FindMethodDescription(config.method);
  NERF_CHECK(method != nullptr);
  return *method;
}

void AddMethodDescription(const MethodDescription* description) {
  NERF_CHECK(FindMethodDescription(description->name()) == nullptr);
  Registry().push_back(description);
}

absl::StatusOr<TrainConfig> DefaultConfig(std::string_view name) {
  const MethodDescription* method = FindMethodDescription(name);
  if (method == nullptr) return UnknownMethod(name);
  return method->Defaults();
}

absl::Status SetConfigField(std::string_view key, std::string_view value, TrainConfig* config) {
  const MethodDescription* method = FindMethodDescription(config->method);
  if (method == nullptr) return UnknownMethod(config->method);
  const Setting* setting = FindSetting(*method, key);
  if (setting == nullptr) return UnknownSetting(*method, key);
  return ParseSetting(*setting, value, config);
}

std::map<std::string, std::string> ConfigSettings(const TrainConfig& config) {
  std::map<std::string, std::string> settings;
  for (const Setting& setting : MethodDescriptionOf(config).settings())
    settings[std::string(setting.key)] = SettingText(setting, config);
  return settings;
}

absl::Status ValidateConfig(const TrainConfig& config) {
  if (FindMethodDescription(config.method) == nullptr) return UnknownMethod(config.method);
  NERF_RETURN_IF_ERROR(CheckBudgetAndSplit(config));
  const MethodDescription& method = MethodDescriptionOf(config);
  NERF_RETURN_IF_ERROR(method.CheckSettings(config));
  return CheckHonored(config, method.training_devices(), "method " + config.method);
}

absl::Status CheckDeviceHonors(const TrainConfig& config, std::string_view device) {
  const MethodDescription& method = MethodDescriptionOf(config);
  const DeviceSet kind = DeviceSetOf(device);
  if ((method.training_devices() & kind) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("device {}: method {} does not train there", device, method.name()));
  }
  return CheckHonored(config, kind, fmt::format("device {}", device));
}

DeviceSet GangDevices(const TrainConfig& config) {
  return config.cuda_deterministic != 0 ? kOnCuda : kOnCpu;
}

absl::Status CheckGang(const TrainConfig& config, int n_workers) {
  const DeviceSet kind = GangDevices(config);
  NERF_RETURN_IF_ERROR(MethodDescriptionOf(config).CheckRanks(config, kind, n_workers));
  return CheckHonored(config, kind,
                      kind == kOnCuda
                          ? "a gang with cuda_deterministic, which trains on CUDA devices,"
                          : "a gang without cuda_deterministic, which trains on CPUs,");
}

std::vector<TensorShape> FieldTensorShapes(const TrainConfig& config) {
  return MethodDescriptionOf(config).FieldTensors(config);
}

absl::Status CheckInitFits(const TrainConfig& config, const std::vector<TensorShape>& held) {
  TrainConfig chosen = config;
  MethodDescriptionOf(config).TakeFromTensors(held, &chosen);
  for (const TensorShape& wanted : FieldTensorShapes(chosen)) {
    const auto found = std::find_if(held.begin(), held.end(),
                                    [&](const TensorShape& t) { return t.name == wanted.name; });
    if (found == held.end()) {
      return absl::InvalidArgumentError(fmt::format("init: tensor {} is missing", wanted.name));
    }
    if (!ShapeFitsStart(found->shape, wanted)) {
      return absl::InvalidArgumentError(
          fmt::format("init: tensor {} is [{}], the config wants [{}]", wanted.name,
                      fmt::join(found->shape, ", "), fmt::join(wanted.shape, ", ")));
    }
    if (found->dtype != "F16" && found->dtype != "F32") {
      return absl::InvalidArgumentError(
          fmt::format("init: tensor {} is {}, not F16 or F32", wanted.name, found->dtype));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFieldFits(const TrainedAs& start, const std::vector<TensorShape>& held,
                            const TrainedAs& wanted) {
  const MethodDescription& method = MethodDescriptionOf(wanted.config);
  TrainConfig config = wanted.config;
  method.TakeFromStart(start.config, &config);
  if (absl::Status fits = CheckInitFits(config, held); !fits.ok()) {
    return start.config.method == config.method
               ? fits
               : absl::InvalidArgumentError("trained by method " + start.config.method);
  }
  return method.CheckStart(start, {config, wanted.n_occupancy_levels});
}

}  // namespace nerf
