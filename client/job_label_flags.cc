#include "client/job_label_flags.h"

#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "fmt/format.h"

namespace nerf {

absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidFieldsError(
        {{"--label", fmt::format("'{}' is not KEY=VALUE", text.substr(0, 64))}});
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<int> ParsePriority(const std::string& text) {
  int priority = 0;
  if (absl::SimpleAtoi(text, &priority)) return priority;
  return InvalidFieldsError(
      {{"--priority", fmt::format("'{}' is not a whole number", text.substr(0, 64))}});
}

absl::StatusOr<std::pair<uint32_t, uint32_t>> ParseWorkers(const std::string& text) {
  const size_t dots = text.find("..");
  uint32_t min = 0, max = 0;
  const bool is_range = dots != std::string::npos;
  if (absl::SimpleAtoi(text.substr(0, dots), &min) &&
      absl::SimpleAtoi(is_range ? text.substr(dots + 2) : text, &max) && min > 0 && max >= min) {
    return std::pair(min, max);
  }
  return InvalidFieldsError(
      {{"--workers", fmt::format("'{}' is not a number, such as 2, or a range, such as 2..4",
                                 text.substr(0, 64))}});
}

}  // namespace nerf
