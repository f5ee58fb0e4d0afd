#pragma once

#include "server/access/blob_owners.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// Adds the blobs of every job, scene and model to its project.
void AddOwnersOf(QueueState& state, BlobOwners* owners);

}  // namespace nerf
