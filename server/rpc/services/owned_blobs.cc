#include "server/rpc/services/owned_blobs.h"

#include <string>

#include "common/error_reason.h"
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

absl::Status RequireOwned(const BlobOwners& owners, std::string_view project,
                          const std::vector<SceneFileRecord>& files) {
  std::vector<std::string> missing;
  for (const SceneFileRecord& file : files) {
    if (!owners.Owns(project, file.blob.sha256)) missing.push_back(BlobName(file.blob));
  }
  return missing.empty() ? absl::OkStatus() : BlobsMissingError(missing);
}

}  // namespace nerf
