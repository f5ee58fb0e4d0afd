#include "server/queue/state/named_blobs.h"

namespace nerf {

std::vector<BlobRef> BlobsOf(const SceneRecord& scene) {
  std::vector<BlobRef> blobs;
  for (const SceneFileRecord& file : scene.files) blobs.push_back(file.blob);
  return blobs;
}

std::vector<BlobRef> BlobsOf(const ModelRecord& model) { return {model.blob}; }

}  // namespace nerf
