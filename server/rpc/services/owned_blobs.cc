#include "server/rpc/services/owned_blobs.h"

#include <string>

#include "server/queue/state/named_blobs.h"

namespace nerf {

void AddOwnersOf(QueueState& state, BlobOwners* owners) {
  VisitNamedBlobs(state, [&](const std::string& project, const BlobRef& blob) {
    owners->Add(project, blob.sha256, /*was_present=*/false);
  });
  VisitNamedBlobs(state, [&](const std::string& project, const BlobRef& blob) {
    if (project == BlobOwners::kDefaultProject) owners->AddDefault(blob.sha256);
  });
}

}  // namespace nerf
