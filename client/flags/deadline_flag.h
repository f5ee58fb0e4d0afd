#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/timestamp.pb.h"

namespace nerf {

// A deadline: a time from now, such as "90m" or "8h", or a time with its zone as RFC 3339 has it,
// such as "2027-01-31T08:00:00Z". Errors: InvalidArgument that names the flag.
absl::StatusOr<google::protobuf::Timestamp> ParseDeadline(std::string_view flag,
                                                          const std::string& text, absl::Time now);

}  // namespace nerf
