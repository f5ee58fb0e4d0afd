#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nerf {

// A setting as help shows it.
struct SettingHelp {
  std::string_view key;
  std::string default_value;
  std::optional<std::pair<double, double>> range = {};  // both ends are allowed; none for choices
  std::string_view text;                                // one line
};

// Every setting, sorted by key.
std::vector<SettingHelp> DescribeSettings();

// They as a table for people: KEY, DEFAULT, RANGE, MEANING, with a header, a line each.
std::string SettingsTable();

}  // namespace nerf
