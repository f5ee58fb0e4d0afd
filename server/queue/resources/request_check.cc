#include "server/queue/resources/request_check.h"

#include <fmt/format.h>

#include "common/ids.h"

namespace nerf {

void RequestCheck::RequireId(std::string_view field, std::string_view id, bool may_be_empty) {
  Require((may_be_empty && id.empty()) || IsResourceId(id), field,
          "must be 1 to 63 characters of a-z, 0-9 and '-', starting with a letter and not ending "
          "with '-'");
}

void RequestCheck::RequireRequestId(std::string_view field, std::string_view request_id) {
  Require(request_id.empty() || IsUuid4(request_id), field, "must be a version 4 UUID");
}

void RequestCheck::RequireDisplayName(std::string_view field, std::string_view name) {
  Require(name.size() <= kMaxDisplayNameLength, field,
          fmt::format("must be at most {} bytes", kMaxDisplayNameLength));
  Require(IsPlainText(name), field, "must be UTF-8 without control characters");
}

bool IsPlainText(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      if (lead < 0x20 || lead == 0x7f) return false;
      ++i;
      continue;
    }
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) return false;
    uint32_t code = lead & (0xffu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = (code << 6) | (byte(i + k) & 0x3fu);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const bool c1_control = code >= 0x80 && code < 0xa0;
    if (overlong || c1_control || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      return false;
    i += length;
  }
  return true;
}

void RequireFuture(std::string_view field, absl::Time deadline, absl::Time now,
                   RequestCheck& check) {
  check.Require(deadline > now, field,
                fmt::format("must be in the future; the server's clock says {}",
                            absl::FormatTime(now, absl::UTCTimeZone())));
}

Fingerprint& Fingerprint::Add(std::string_view part) {
  sha_.Update(fmt::format("{}:", part.size()));
  sha_.Update(part);
  return *this;
}

}  // namespace nerf
