#pragma once

#include <vector>

#include "server/queue/kinds/kind_policy.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// The blobs that a record names. Of a job: BlobsOf in kind_policy.h.
std::vector<BlobRef> BlobsOf(const SceneRecord& scene);
std::vector<BlobRef> BlobsOf(const ModelRecord& model);
inline std::vector<BlobRef> BlobsOf(const JobEntry& entry) { return BlobsOf(entry.job); }

}  // namespace nerf
