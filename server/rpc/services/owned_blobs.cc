#include "server/rpc/services/owned_blobs.h"

#include <fmt/format.h>

#include <string>

#include "absl/strings/str_split.h"
#include "common/error_reason.h"
#include "nerf/v1/model_service.pb.h"

namespace nerf {

void TakeUpStoredBlobs(QueueState& state, QueueAdmin& admin, BlobStore& blobs, BlobOwners* owners) {
  {
    MutexLock lock(state.mu);
    for (const auto& [project, stored] : state.stored_use().by_project()) {
      for (const auto& [sha256, upload] : stored.uploads) owners->Add(project, sha256);
    }
  }
  state.VisitNamedBlobs(
      [&](const std::string& project, const BlobRef& blob) { owners->Add(project, blob.sha256); });
  for (const UnfinishedUpload& upload : blobs.ListUploads()) {
    // "{project}.{uuid}.{sha256}"; of a worker without the project.
    const std::vector<std::string> parts = absl::StrSplit(upload.name, '.');
    if (parts.size() == 3) admin.NoteUnfinished(parts[0], upload.name, upload.byte_size);
  }
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
