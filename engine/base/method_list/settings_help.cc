#include "engine/base/method_list/settings_help.h"

#include <algorithm>

#include "fmt/format.h"

namespace nerf {

std::vector<SettingHelp> DescribeSettings(const MethodDescription& method) {
  const TrainConfig defaults = method.Defaults();
  std::vector<SettingHelp> settings;
  for (const Setting& setting : method.settings()) {
    if (setting.devices == kNoDevice) continue;
    SettingHelp& help = settings.emplace_back();
    help.key = setting.key;
    help.default_value = SettingText(setting, defaults);
    if (setting.max > setting.min) help.range = {setting.min, setting.max};
    const DeviceSet devices = method.training_devices();
    const char* const only = (setting.devices & devices) == devices ? ""
                             : setting.devices == kOnCpu            ? "on the CPU: "
                                                                    : "on CUDA: ";
    help.text = fmt::format("{}{}", only, setting.text);
  }
  return settings;
}

std::string SettingsTable(const MethodDescription& method) {
  const std::vector<SettingHelp> settings = DescribeSettings(method);
  const auto range_of = [](const SettingHelp& setting) {
    return setting.range.has_value()
               ? fmt::format("{:g} to {:g}", setting.range->first, setting.range->second)
               : std::string("-");
  };
  size_t key_width = 3, default_width = 7, range_width = 5;
  for (const SettingHelp& setting : settings) {
    key_width = std::max(key_width, setting.key.size());
    default_width = std::max(default_width, setting.default_value.size());
    range_width = std::max(range_width, range_of(setting).size());
  }
  std::string table;
  const auto add = [&](std::string_view key, std::string_view value, std::string_view range,
                       std::string_view text) {
    table += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", key, key_width, value, default_width,
                         range, range_width, text);
  };
  add("KEY", "DEFAULT", "RANGE", "MEANING");
  for (const SettingHelp& setting : settings) {
    add(setting.key, setting.default_value, range_of(setting), setting.text);
  }
  return table;
}

}  // namespace nerf
