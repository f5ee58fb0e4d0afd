#include "common/packed_strings.h"

namespace nerf {

std::string PackStrings(const std::vector<std::string>& strings) {
  std::string packed;
  for (const std::string& s : strings) {
    packed += std::to_string(s.size());
    packed += ':';
    packed += s;
  }
  return packed;
}

std::optional<std::vector<std::string>> UnpackStrings(std::string_view packed) {
  constexpr size_t kMaxDigits = 12;  // more could overflow
  std::vector<std::string> strings;
  while (!packed.empty()) {
    size_t length = 0, i = 0;
    for (; i < packed.size() && packed[i] >= '0' && packed[i] <= '9' && i < kMaxDigits; ++i) {
      length = length * 10 + static_cast<size_t>(packed[i] - '0');
    }
    if (i == 0 || i == packed.size() || packed[i] != ':') return std::nullopt;
    packed.remove_prefix(i + 1);
    if (length > packed.size()) return std::nullopt;
    strings.emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  return strings;
}

}  // namespace nerf
