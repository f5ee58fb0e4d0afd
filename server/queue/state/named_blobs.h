#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/queue/kinds/kind_policy.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// The blobs that a record names. Of a job: BlobsOf in kind_policy.h.
std::vector<BlobRef> BlobsOf(const SceneRecord& scene);
std::vector<BlobRef> BlobsOf(const ModelRecord& model);
inline std::vector<BlobRef> BlobsOf(const JobEntry& entry) { return BlobsOf(entry.job); }

// Calls `visit` with the project and blob of every scene, job and model, while nobody changes them.
// Some blobs come more than once.
void VisitNamedBlobs(
    QueueState& state,
    const std::function<void(const std::string& project, const BlobRef& blob)>& visit);

}  // namespace nerf
