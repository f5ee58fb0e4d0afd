#include "server/rpc/workers/made_blobs.h"

#include <algorithm>

namespace nerf {

void OwnMade(const ServiceContext& services, std::string_view project,
             const std::vector<BlobRef>& made) {
  const std::vector<BlobRef> missing = services.blobs.FindMissing(made);
  for (const BlobRef& blob : made) {
    if (std::find(missing.begin(), missing.end(), blob) != missing.end()) continue;
    services.blob_owners.Add(project, blob.sha256);
  }
}

}  // namespace nerf
