#include "engine/base/config/setting_list.h"

#include <algorithm>
#include <string_view>

namespace nerf {
namespace {

bool BeginsWithKey(std::string_view text) {
  const size_t equals = text.find('=');
  return equals != std::string_view::npos && equals > 0 &&
         std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

}  // namespace

std::vector<std::string> SettingsIn(const std::vector<std::string>& texts) {
  std::vector<std::string> settings;
  for (const std::string& text : texts) {
    size_t begin = 0;
    for (size_t comma = text.find(','); comma != std::string::npos;
         comma = text.find(',', comma + 1)) {
      if (!BeginsWithKey(std::string_view(text).substr(comma + 1))) continue;
      settings.push_back(text.substr(begin, comma - begin));
      begin = comma + 1;
    }
    settings.push_back(text.substr(begin));
  }
  return settings;
}

}  // namespace nerf
