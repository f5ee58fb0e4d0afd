#include "client/flags/deadline_flag.h"

#include "client/flags/time_flag.h"
#include "fmt/format.h"

namespace nerf {

absl::StatusOr<google::protobuf::Timestamp> ParseDeadline(std::string_view flag,
                                                          const std::string& text, absl::Time now) {
  absl::Time time;
  std::string problem;
  if (const absl::StatusOr<absl::Duration> wait = ParseTimeFlag(flag, text); wait.ok()) {
    time = now + *wait;
  } else if (!absl::ParseTime(absl::RFC3339_full, text, &time, &problem)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is neither a time from now, such as 90m or 8h, nor one with its "
                    "zone, such as 2027-01-31T08:00:00Z",
                    flag, text.substr(0, 64)));
  }
  google::protobuf::Timestamp timestamp;
  const int64_t micros = absl::ToUnixMicros(time);
  constexpr int64_t kMicros = 1'000'000;
  timestamp.set_seconds(micros / kMicros - (micros % kMicros < 0 ? 1 : 0));
  timestamp.set_nanos(static_cast<int32_t>((micros - timestamp.seconds() * kMicros) * 1'000));
  return timestamp;
}

}  // namespace nerf
