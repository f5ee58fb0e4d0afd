#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/common.pb.h"

namespace nerf {

// The digest and size of a file or of bytes.
absl::StatusOr<v1::BlobRef> BlobOfFile(const std::string& path);
v1::BlobRef BlobOfBytes(std::string_view bytes);

// "blobs/{sha256}/{size}".
std::string BlobResourceName(const v1::BlobRef& blob);

// OK when sha256 is 64 lower-case hexadecimal characters and the size a whole number from 0 to
// 2^53; otherwise InvalidArgument FIELD_INVALID naming `field`.
absl::Status CheckBlobRef(std::string_view field, const v1::BlobRef& blob);

}  // namespace nerf
