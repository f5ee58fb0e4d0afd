#include "server/queue/resources/blob_ref.h"

namespace nerf {

v1::BlobRef ToProto(const BlobRef& blob) {
  v1::BlobRef proto;
  proto.set_sha256(blob.sha256);
  proto.set_size_bytes(static_cast<double>(blob.byte_size));
  return proto;
}

uint64_t WholeNumber(double value) {
  constexpr double kMax = 9007199254740992.0;  // 2^53
  return value >= 0 && value <= kMax ? static_cast<uint64_t>(value) : 0;
}

BlobRef ToBlobRef(const v1::BlobRef& blob) {
  return {blob.sha256(), WholeNumber(blob.size_bytes())};
}

}  // namespace nerf
