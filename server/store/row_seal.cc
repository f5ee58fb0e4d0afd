#include "server/store/row_seal.h"

#include <fmt/format.h>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/packed_strings.h"

namespace nerf {
namespace {

constexpr char kMark = '#';  // bodies of older versions begin with a digit or are empty
constexpr size_t kDigits = 16;

std::string DigestOf(std::string_view body, const std::vector<std::string>& columns) {
  Sha256 sha;
  sha.Update(PackStrings(columns));
  sha.Update(body);
  return sha.HexDigest().substr(0, kDigits);
}

}  // namespace

std::string SealRow(std::string_view body, const std::vector<std::string>& columns) {
  return fmt::format("{}{}{}", kMark, DigestOf(body, columns), body);
}

absl::StatusOr<std::string> UnsealRow(std::string_view sealed,
                                      const std::vector<std::string>& columns) {
  if (sealed.empty() || sealed[0] != kMark) return std::string(sealed);
  const std::string_view body = sealed.size() < 1 + kDigits ? "" : sealed.substr(1 + kDigits);
  if (sealed.substr(1, kDigits) != DigestOf(body, columns)) {
    return WithReason(absl::DataLossError(fmt::format("the row of {} is damaged",
                                                      columns.size() > 1 ? columns[1] : "?")),
                      reason::kStoreCorrupt);
  }
  return std::string(body);
}

}  // namespace nerf
