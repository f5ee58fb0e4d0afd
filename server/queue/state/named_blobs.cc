#include "server/queue/state/named_blobs.h"

namespace nerf {

std::vector<BlobRef> BlobsOf(const SceneRecord& scene) {
  std::vector<BlobRef> blobs;
  for (const SceneFileRecord& file : scene.files) blobs.push_back(file.blob);
  return blobs;
}

std::vector<BlobRef> BlobsOf(const ModelRecord& model) { return {model.blob}; }

void VisitNamedBlobs(
    QueueState& state,
    const std::function<void(const std::string& project, const BlobRef& blob)>& visit) {
  MutexLock lock(state.mu);
  const auto visit_all = [&](const auto& records) {
    for (const auto& [key, record] : records) {
      for (const BlobRef& blob : BlobsOf(record)) visit(key.project, blob);
    }
  };
  visit_all(state.scenes);
  visit_all(state.jobs);
  visit_all(state.models);
}

}  // namespace nerf
