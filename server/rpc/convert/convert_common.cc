#include "server/rpc/convert/convert_common.h"

#include <cmath>

#include "common/error_reason.h"
#include "common/messages/blob_ref.h"
#include "common/status_macros.h"

namespace nerf {

absl::StatusOr<absl::Time> FromProto(std::string_view field,
                                     const google::protobuf::Timestamp& time) {
  // 0001 to 9999, as google.protobuf.Timestamp has it.
  if (time.seconds() < -62'135'596'800 || time.seconds() > 253'402'300'799 || time.nanos() < 0 ||
      time.nanos() >= 1'000'000'000) {
    return InvalidFieldsError({{std::string(field), "is no time from year 1 to 9999"}});
  }
  return ToTime(time);
}

absl::StatusOr<BlobRef> FromProto(std::string_view field, const v1::BlobRef& blob) {
  NERF_RETURN_IF_ERROR(CheckBlobRef(field, blob));
  return BlobRef{blob.sha256(), static_cast<uint64_t>(blob.size_bytes())};
}

std::string Cut(const std::string& text, size_t max_length) {
  if (text.size() <= max_length) return text;
  size_t length = max_length;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  return text.substr(0, length);
}

double Finite(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace nerf
