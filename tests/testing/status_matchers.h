#pragma once

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/error_reason.h"

namespace nerf {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

// Matches an OK Status or StatusOr.
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return arg.ok();
}

// Matches an OK StatusOr whose value matches `matcher`.
MATCHER_P(IsOkAndHolds, matcher, "is OK and its value matches") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(matcher, *arg, result_listener);
}

// Matches a Status or StatusOr with this code.
MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

// As above, with a message that contains `text` (or matches it, where it is a matcher).
MATCHER_P2(StatusIs, code, text,
           "has status code " + absl::StatusCodeToString(code) + " and text") {
  *result_listener << StatusOf(arg).ToString();
  if (StatusOf(arg).code() != code) return false;
  const std::string message(StatusOf(arg).message());
  if constexpr (std::is_convertible_v<decltype(text), std::string>) {
    return message.find(std::string(text)) != std::string::npos;
  } else {
    return ::testing::ExplainMatchResult(text, message, result_listener);
  }
}

// Matches a Status or StatusOr with this code and this machine-readable reason (error_reason.h).
MATCHER_P2(FailsWith, code, reason, "has this status code and reason") {
  const auto found = GetReason(StatusOf(arg));
  *result_listener << StatusOf(arg).ToString() << ", reason "
                   << (found.has_value() ? found->reason : "none");
  return StatusOf(arg).code() == code && found.has_value() && found->reason == reason;
}

}  // namespace nerf
