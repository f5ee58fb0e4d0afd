#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nerf {

// Several strings as one: each as "<length>:<bytes>", so that a value may contain any byte.
std::string PackStrings(const std::vector<std::string>& strings);

// The inverse; nullopt for bytes that PackStrings cannot have written.
std::optional<std::vector<std::string>> UnpackStrings(std::string_view packed);

}  // namespace nerf
