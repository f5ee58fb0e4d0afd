#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace nerf {

// "0003, 0004": at most eight names, then how many more there are: " and 2 more".
inline std::string FirstNames(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNames)
    text += " and " + std::to_string(names.size() - kMaxNames) + " more";
  return text;
}

}  // namespace nerf
