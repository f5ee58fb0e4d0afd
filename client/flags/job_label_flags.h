#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace nerf {

// A `--label KEY=VALUE`. Errors: InvalidArgument without a key or `=`; the server checks the rest.
absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(const std::string& text);

// --priority as a number. Errors: InvalidArgument for anything but a whole number.
absl::StatusOr<int> ParsePriority(const std::string& text);

// --workers as "N" or "MIN..MAX". Errors: InvalidArgument for anything else; the server checks the
// range.
absl::StatusOr<std::pair<uint32_t, uint32_t>> ParseWorkers(const std::string& text);

}  // namespace nerf
