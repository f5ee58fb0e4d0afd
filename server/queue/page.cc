#include "server/queue/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "absl/strings/escaping.h"
#include "common/error_reason.h"
#include "common/packed_strings.h"

namespace nerf {
namespace {
constexpr char kVersion[] = "page1";
}

absl::StatusOr<size_t> EffectivePageSize(int page_size) {
  if (page_size < 0) return InvalidFieldsError({{"page_size", "must not be negative"}});
  if (page_size == 0) return static_cast<size_t>(kDefaultPageSize);
  return static_cast<size_t>(std::min(page_size, kMaxPageSize));
}

std::string EncodePageToken(std::string_view kind, std::string_view project, uint64_t before) {
  return absl::WebSafeBase64Escape(
      PackStrings({kVersion, std::string(kind), std::string(project), std::to_string(before)}));
}

absl::StatusOr<uint64_t> ParsePageToken(std::string_view kind, std::string_view project,
                                        std::string_view token) {
  if (token.empty()) return std::numeric_limits<uint64_t>::max();
  const absl::Status bad = InvalidFieldsError(
      {{"page_token", "must be the next_page_token of the same list, unchanged"}});
  std::string packed;
  if (!absl::WebSafeBase64Unescape(std::string(token), &packed)) return bad;
  const auto parts = UnpackStrings(packed);
  if (!parts.has_value() || parts->size() != 4 || (*parts)[0] != kVersion || (*parts)[1] != kind ||
      (*parts)[2] != project) {
    return bad;
  }
  const std::string& digits = (*parts)[3];
  uint64_t before = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), before);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  return before;
}

}  // namespace nerf
