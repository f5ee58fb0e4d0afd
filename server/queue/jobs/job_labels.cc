#include "server/queue/jobs/job_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/queue/resources/request_check.h"

namespace nerf {
namespace {
constexpr size_t kMaxKeyLength = 63, kMaxValueLength = 63;  // bytes
}  // namespace

bool IsLabelKey(std::string_view key) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_allowed = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  return !key.empty() && key.size() <= kMaxKeyLength && is_letter(key[0]) &&
         std::all_of(key.begin(), key.end(), is_allowed);
}

absl::Status CheckLabels(std::string_view field, const JobLabels& labels) {
  RequestCheck check;
  check.Require(labels.size() <= kMaxLabels, field,
                fmt::format("must be at most {} labels", kMaxLabels));
  for (const auto& [key, value] : labels) {
    check.Require(IsLabelKey(key), field,
                  "keys must be 1 to 63 characters of a-z, 0-9, '_', '.' and '-', starting with a "
                  "letter");
    check.Require(value.size() <= kMaxValueLength && IsPlainText(value),
                  fmt::format("{}.{}", field, IsLabelKey(key) ? key : "?"),
                  "must be at most 63 bytes of UTF-8 without control characters");
  }
  return check.Result();
}

absl::Status CheckPriority(std::string_view field, int priority) {
  RequestCheck check;
  check.Require(priority >= kMinPriority && priority <= kMaxPriority, field,
                fmt::format("must be {} to {}", kMinPriority, kMaxPriority));
  return check.Result();
}

}  // namespace nerf
