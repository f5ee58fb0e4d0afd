#pragma once

#include <string_view>
#include <vector>

#include "server/queue/resources/blob_ref.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// The project may read what a worker has made for its job, as far as the store has it. Call this
// before the commit that names the blobs: a client may read them once it knows of the commit.
void OwnMade(const ServiceContext& services, std::string_view project,
             const std::vector<BlobRef>& made);

}  // namespace nerf
