#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/access/access_store.h"
#include "server/access/blob_owners.h"
#include "server/queue/resources/scene_record.h"
#include "server/queue/state/queue_state.h"
#include "server/queue/upkeep/queue_admin.h"
#include "server/store/blob_store.h"

namespace nerf {

// At a start: adds the blobs of every job, scene and model, and what was uploaded for one, to its
// project. Other blobs are nobody's. Counts the uploads that go on.
void TakeUpStoredBlobs(QueueState& state, QueueAdmin& admin, BlobStore& blobs, BlobOwners* owners);

// That the project may use all of the files. Errors: FailedPrecondition BLOBS_MISSING, as for blobs
// that nobody has.
absl::Status RequireOwned(const BlobOwners& owners, std::string_view project,
                          const std::vector<SceneFileRecord>& files);

// The resource names of the blobs of a share's files (TokenRegistry::ReadsOfShare).
std::vector<std::string> BlobsOfShare(const TokenRecord& share);

}  // namespace nerf
