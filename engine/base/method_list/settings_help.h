#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/config/method_description.h"

namespace nerf {

// A setting as help shows it.
struct SettingHelp {
  std::string_view key;
  std::string default_value;
  std::optional<std::pair<double, double>> range = {};  // inclusive; none for choices
  std::string text;                                     // one line, with the devices that honor it
};

// Every setting that the method honors, sorted by key.
std::vector<SettingHelp> DescribeSettings(const MethodDescription& method);

// The settings as a table: KEY, DEFAULT, RANGE, MEANING, with a header, a line each.
std::string SettingsTable(const MethodDescription& method);

}  // namespace nerf
