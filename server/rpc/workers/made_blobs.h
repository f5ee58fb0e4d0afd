#pragma once

#include <string_view>
#include <vector>

#include "server/queue/resources/blob_ref.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// The project may read these blobs, which a worker names as made for a job of it. Call this before
// the commit that names them: a client may read them once it knows of the commit. Whether the lease
// is held and the store has them is checked by the commit alone: workers are trusted with every
// blob, and reports do not wait for the store.
inline void OwnMade(const ServiceContext& services, std::string_view project,
                    const std::vector<BlobRef>& made) {
  for (const BlobRef& blob : made) services.blob_owners.Add(project, blob.sha256);
}

}  // namespace nerf
