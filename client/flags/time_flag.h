#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace nerf {

// A positive duration: "90s", "5m", "1h30m", or a plain number of seconds. Errors: InvalidArgument
// that names the flag.
absl::StatusOr<absl::Duration> ParseTimeFlag(std::string_view flag, const std::string& text);

}  // namespace nerf
