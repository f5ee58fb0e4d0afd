#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace nerf {

// "1 view", "0 views", "25 views".
template <std::integral Count>
std::string Counted(Count n, std::string_view noun) {
  return std::to_string(n).append(" ").append(noun).append(n == 1 ? "" : "s");
}

}  // namespace nerf
