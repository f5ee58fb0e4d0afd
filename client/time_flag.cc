#include "client/time_flag.h"

#include "absl/strings/numbers.h"
#include "fmt/format.h"

namespace nerf {

absl::StatusOr<absl::Duration> ParseTimeFlag(std::string_view flag, const std::string& text) {
  absl::Duration duration;
  double seconds = 0;
  const bool parsed = absl::SimpleAtod(text, &seconds) ? (duration = absl::Seconds(seconds), true)
                                                       : absl::ParseDuration(text, &duration);
  // The upper bound also refuses "inf" and NaN.
  if (!parsed || !(duration > absl::ZeroDuration() && duration <= absl::Hours(24 * 365))) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: '{}' is not a time above 0, such as 90s, 5m or 1h30m", flag, text.substr(0, 64)));
  }
  return duration;
}

}  // namespace nerf
