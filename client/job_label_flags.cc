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

}  // namespace nerf
