#include "server/queue/resources/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "common/error_reason.h"

namespace nerf {
namespace {

constexpr char kVersion[] = "page2";

std::vector<std::string> UseOf(std::string_view kind, std::string_view project) {
  return {"page", std::string(kind), std::string(project)};
}

}  // namespace

absl::StatusOr<size_t> EffectivePageSize(int page_size) {
  if (page_size < 0) return InvalidFieldsError({{"page_size", "must not be negative"}});
  if (page_size == 0) return static_cast<size_t>(kDefaultPageSize);
  return static_cast<size_t>(std::min(page_size, kMaxPageSize));
}

std::string EncodePageToken(const TokenSealer& sealer, std::string_view kind,
                            std::string_view project, uint64_t before) {
  return sealer.Seal(UseOf(kind, project), {kVersion, std::to_string(before)});
}

absl::StatusOr<uint64_t> ParsePageToken(const TokenSealer& sealer, std::string_view kind,
                                        std::string_view project, std::string_view token) {
  if (token.empty()) return std::numeric_limits<uint64_t>::max();
  const absl::Status bad = InvalidFieldsError(
      {{"page_token", "must be the next_page_token of the same list, unchanged"}});
  const auto parts = sealer.Open(UseOf(kind, project), token);
  if (!parts.has_value() || parts->size() != 2 || (*parts)[0] != kVersion) return bad;
  const std::string& digits = (*parts)[1];
  uint64_t before = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), before);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad;
  return before;
}

}  // namespace nerf
