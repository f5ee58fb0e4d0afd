#include "client/flags/job_label_flags.h"

#include <algorithm>

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
  const std::string key = text.substr(0, equals);
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool is_key =
      is_letter(key[0]) && std::all_of(key.begin(), key.end(), [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
      });
  if (!is_key) {
    return InvalidFieldsError(
        {{"--label", fmt::format("the key '{}' is not of a-z, 0-9, '_', '.' and '-', beginning "
                                 "with a letter",
                                 key.substr(0, 64))}});
  }
  return std::pair(key, text.substr(equals + 1));
}

absl::StatusOr<int> ParsePriority(const std::string& text) {
  int priority = 0;
  if (absl::SimpleAtoi(text, &priority) && priority >= -100 && priority <= 100) return priority;
  return InvalidFieldsError(
      {{"--priority",
        fmt::format("'{}' is not a whole number from -100 to 100", text.substr(0, 64))}});
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
