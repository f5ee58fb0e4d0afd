#include "server/rpc/services/owned_blobs.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "common/error_reason.h"
#include "nerf/v1/model_service.pb.h"
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

std::vector<std::string> BlobsOfShare(const TokenRecord& share) {
  v1::Share start;
  start.ParseFromString(share.start);
  std::vector<std::string> names;
  for (const v1::ExportFile& file : start.files()) {
    const std::string blob =
        fmt::format("blobs/{}/{:.0f}", file.blob().sha256(), file.blob().size_bytes());
    names.push_back(fmt::format("projects/{}/{}", share.project, blob));
    if (share.project == "default") names.push_back(blob);
  }
  return names;
}

}  // namespace nerf
