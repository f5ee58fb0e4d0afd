#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nerf/v1/common.pb.h"

namespace nerf {

// A content-addressed blob: lower-case hexadecimal SHA-256 (64 characters) and size in bytes.
struct BlobRef {
  std::string sha256;
  uint64_t byte_size = 0;

  auto operator<=>(const BlobRef&) const = default;
};

// "blobs/{sha256}/{size}".
inline std::string BlobName(const BlobRef& blob) {
  return fmt::format("blobs/{}/{}", blob.sha256, blob.byte_size);
}

v1::BlobRef ToProto(const BlobRef& blob);
// A whole number that messages have as a double; 0 for what is none from 0 to 2^53.
uint64_t WholeNumber(double value);
// Of a message that was checked, or that the server has written itself.
BlobRef ToBlobRef(const v1::BlobRef& blob);

// Which blobs are present. The queue asks before it accepts a scene or a checkpoint, and reports
// the blobs that it no longer refers to. Thread-safe.
class BlobIndex {
 public:
  virtual ~BlobIndex() = default;

  // Those of `blobs` that are not present with their size, without duplicates. The caller is about
  // to refer to the others: they are not collected before the collector's grace period has passed
  // since this call. After a restart only the reference keeps them.
  virtual std::vector<BlobRef> FindMissing(std::span<const BlobRef> blobs) = 0;

  // The caller no longer refers to the blob. Unless something else does, it is collected within
  // minutes.
  virtual void Release(const BlobRef& blob) = 0;
};

}  // namespace nerf
