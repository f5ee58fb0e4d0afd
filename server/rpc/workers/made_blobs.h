#pragma once

#include <string_view>
#include <vector>

#include "server/queue/resources/blob_ref.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// The project may read these blobs, which a worker names as made for a job of it, as far as the
// store has them. Call this before the commit that names them: a client may read them once it knows
// of the commit. The lease is checked by the commit alone: workers are trusted with every blob.
void OwnMade(const ServiceContext& services, std::string_view project,
             const std::vector<BlobRef>& made);

}  // namespace nerf
