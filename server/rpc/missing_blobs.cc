#include "server/rpc/missing_blobs.h"

#include <fmt/format.h>

#include <vector>

#include "common/rpc/rpc_status.h"

namespace nerf {

std::string BlobName(const BlobRef& blob) {
  return fmt::format("blobs/{}/{}", blob.sha256, blob.byte_size);
}

absl::Status RequireBlobs(BlobIndex& index, std::span<const BlobRef> blobs) {
  std::vector<std::string> names;
  for (const BlobRef& blob : index.FindMissing(blobs)) names.push_back(BlobName(blob));
  return names.empty() ? absl::OkStatus() : BlobsMissingError(names);
}

}  // namespace nerf
