#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/queue/resources/blob_ref.h"

namespace nerf {

struct NamedBlob {
  std::string project;  // empty: the name has none, which means the default one
  BlobRef blob;

  std::string project_or_default() const { return project.empty() ? "default" : project; }
};

struct UploadName {
  std::string project;    // never empty
  std::string upload_id;  // UUID4
  BlobRef blob;
};

// "projects/{p}/blobs/{sha256}/{size}", or without its first two parts. InvalidArgument
// FIELD_INVALID naming resource_name.
absl::StatusOr<NamedBlob> ParseBlobName(std::string_view name);
// "projects/{p}/uploads/{uuid}/blobs/{sha256}/{size}", or without its first two parts.
absl::StatusOr<UploadName> ParseUploadName(std::string_view name);

// The id of the upload in the store, where the uploads of projects must not meet: of a client
// "{project}.{uuid}", of a worker the UUID alone.
std::string StoredUploadId(const UploadName& name, bool is_worker);

}  // namespace nerf
