#include "server/rpc/services/owned_blobs.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/error_reason.h"
#include "nerf/v1/model_service.pb.h"

namespace nerf {

void TakeUpStoredBlobs(QueueState& state, QueueAdmin& admin, BlobStore& blobs, BlobOwners* owners) {
  std::set<std::string> known = state.ReachableBlobs();
  std::vector<std::pair<std::string, std::string>> uploads;  // project, sha256
  {
    MutexLock lock(state.mu);
    for (const auto& [project, stored] : state.stored_use().by_project()) {
      for (const auto& [sha256, upload] : stored.uploads) uploads.emplace_back(project, sha256);
    }
  }
  // The default project comes last: it has no entry of its own.
  for (const bool of_default : {false, true}) {
    const auto add = [&](const std::string& project, const std::string& sha256) {
      if ((project == BlobOwners::kDefaultProject) != of_default) return;
      owners->Add(project, sha256, /*was_present=*/false);
    };
    state.VisitNamedBlobs(
        [&](const std::string& project, const BlobRef& blob) { add(project, blob.sha256); });
    for (const auto& [project, sha256] : uploads) add(project, sha256);
  }
  for (const auto& [project, sha256] : uploads) known.insert(sha256);
  for (int folder = 0; folder < BlobStore::kFolders; ++folder) {
    for (const BlobRef& blob : blobs.ListFolder(folder)) {
      if (!known.contains(blob.sha256)) owners->AddNobodys(blob.sha256);
    }
  }
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
