#include "client/flags/time_flag.h"

#include <optional>

#include "common/amount.h"
#include "fmt/format.h"

namespace nerf {

absl::StatusOr<absl::Duration> ParseTimeFlag(std::string_view flag, const std::string& text) {
  const std::optional<absl::Duration> duration = ParseTimeSpan(text);
  if (!duration.has_value()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: '{}' is not a time above 0, such as 90s, 5m or 1h30m", flag, text.substr(0, 64)));
  }
  return *duration;
}

}  // namespace nerf
