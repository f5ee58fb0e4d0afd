#include "server/web/blob_path.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/files/sha256.h"
#include "common/ids.h"

namespace nerf {
namespace {

constexpr size_t kMaxSizeDigits = 16;  // 2^53

std::optional<uint64_t> ParseNumber(std::string_view text) {
  if (text.empty() || text.size() > kMaxSizeDigits ||
      text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::optional<BlobPath> ParseBlobPath(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  path.remove_prefix(1);
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(path.data(), path.size()), '/');
  size_t i = 0;
  const auto left = [&] { return parts.size() - i; };
  if (left() > 2 && parts[i] == "projects") {
    if (!IsResourceId(parts[i + 1])) return std::nullopt;
    i += 2;
  }
  BlobPath blob{.resource_name = std::string(path)};
  if (left() > 2 && parts[i] == "uploads") {
    if (!IsUuid4(parts[i + 1])) return std::nullopt;
    blob.is_upload = true;
    i += 2;
  }
  if (left() != 3 || parts[i] != "blobs" || !IsSha256Hex(parts[i + 1])) return std::nullopt;
  const std::optional<uint64_t> size = ParseNumber(parts[i + 2]);
  if (!size.has_value()) return std::nullopt;
  blob.sha256 = parts[i + 1];
  blob.byte_size = *size;
  return blob;
}

RangeKind ParseRange(std::string_view header, uint64_t byte_size, ByteRange* range) {
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit)) return RangeKind::kWhole;
  header.remove_prefix(kUnit.size());
  const size_t dash = header.find('-');
  if (dash == std::string_view::npos || header.find(',') != std::string_view::npos) {
    return RangeKind::kWhole;
  }
  const std::string_view first = header.substr(0, dash), last = header.substr(dash + 1);
  const std::optional<uint64_t> begin = ParseNumber(first), end = ParseNumber(last);
  if ((!first.empty() && !begin.has_value()) || (!last.empty() && !end.has_value()) ||
      (first.empty() && last.empty())) {
    return RangeKind::kWhole;
  }
  if (!begin.has_value()) {
    if (*end == 0 || byte_size == 0) return RangeKind::kUnsatisfiable;
    *range = {byte_size - std::min(*end, byte_size), byte_size};
    return RangeKind::kPart;
  }
  if (end.has_value() && *end < *begin) return RangeKind::kWhole;
  if (*begin >= byte_size) return RangeKind::kUnsatisfiable;
  *range = {*begin, end.has_value() ? std::min(*end + 1, byte_size) : byte_size};
  return RangeKind::kPart;
}

}  // namespace nerf
