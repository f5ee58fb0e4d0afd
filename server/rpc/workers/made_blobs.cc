#include "server/rpc/workers/made_blobs.h"

#include <algorithm>
#include <iterator>

namespace nerf {

void OwnMade(const ServiceContext& services, std::string_view project,
             const std::vector<BlobRef>& made) {
  std::vector<BlobRef> added;
  std::copy_if(made.begin(), made.end(), std::back_inserter(added), [&](const BlobRef& blob) {
    return !services.blob_owners.Owns(project, blob.sha256);
  });
  if (added.empty()) return;  // as of most reports: the store, which may be slow, is not asked
  const std::vector<BlobRef> missing = services.blobs.FindMissing(added);
  for (const BlobRef& blob : added) {
    if (std::find(missing.begin(), missing.end(), blob) != missing.end()) continue;
    services.blob_owners.Add(project, blob.sha256);
  }
}

}  // namespace nerf
