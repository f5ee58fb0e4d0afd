#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace nerf {

// A `--label KEY=VALUE`. Errors: InvalidArgument without a key or `=`; the server checks the rest.
absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(const std::string& text);

// --priority as a number. Errors: InvalidArgument for anything but a whole number.
absl::StatusOr<int> ParsePriority(const std::string& text);

}  // namespace nerf
