#include "engine/config/settings_help.h"

#include <algorithm>
#include <map>

#include "engine/config/train_config.h"
#include "fmt/format.h"

namespace nerf {

std::vector<SettingHelp> DescribeSettings() {
  std::map<std::string, std::string> defaults = ConfigSettings(TrainConfig());
  std::vector<SettingHelp> settings;
  for (const ConfigField& field : TrainConfigFields()) {
    SettingHelp& setting = settings.emplace_back();
    setting.key = field.key;
    setting.default_value = defaults[std::string(field.key)];
    if (field.max > field.min) setting.range = {field.min, field.max};
    setting.text = field.text;
  }
  return settings;
}

std::string SettingsTable() {
  const std::vector<SettingHelp> settings = DescribeSettings();
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
