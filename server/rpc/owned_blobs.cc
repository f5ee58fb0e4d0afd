#include "server/rpc/owned_blobs.h"

#include <string>

#include "server/queue/job_kind.h"

namespace nerf {
namespace {

// Calls `visit` with every blob and its project.
template <typename Visit>
void ForEachBlob(QueueState& state, Visit visit) {
  MutexLock lock(state.mu);
  for (const auto& [key, scene] : state.scenes) {
    for (const SceneFileRecord& file : scene.files) visit(key.project, file.blob.sha256);
  }
  for (const auto& [key, entry] : state.jobs) {
    for (const BlobRef& blob : BlobsOf(entry.job)) visit(key.project, blob.sha256);
  }
  for (const auto& [key, model] : state.models) visit(key.project, model.blob.sha256);
}

}  // namespace

void AddOwnersOf(QueueState& state, BlobOwners* owners) {
  ForEachBlob(state, [&](const std::string& project, const std::string& sha256) {
    owners->Add(project, sha256, /*was_present=*/false);
  });
  ForEachBlob(state, [&](const std::string& project, const std::string& sha256) {
    if (project == BlobOwners::kDefaultProject) owners->AddDefault(sha256);
  });
}

}  // namespace nerf
