#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/queue/blob_ref.h"

namespace nerf {

struct UploadName {
  std::string upload_id;  // UUID4
  BlobRef blob;
};

// "blobs/{sha256}/{size}". InvalidArgument FIELD_INVALID naming resource_name.
absl::StatusOr<BlobRef> ParseBlobName(std::string_view name);
// "uploads/{uuid}/blobs/{sha256}/{size}".
absl::StatusOr<UploadName> ParseUploadName(std::string_view name);

}  // namespace nerf
