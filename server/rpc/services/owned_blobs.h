#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/access/access_store.h"
#include "server/access/blob_owners.h"
#include "server/queue/resources/scene_record.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// Adds the blobs of every job, scene and model to its project.
void AddOwnersOf(QueueState& state, BlobOwners* owners);

// That the project may use all of the files. Errors: FailedPrecondition BLOBS_MISSING, as for blobs
// that nobody has.
absl::Status RequireOwned(const BlobOwners& owners, std::string_view project,
                          const std::vector<SceneFileRecord>& files);

// The resource names of the blobs of a share's files (TokenRegistry::ReadsOfShare).
std::vector<std::string> BlobsOfShare(const TokenRecord& share);

}  // namespace nerf
