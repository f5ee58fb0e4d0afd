#pragma once

#include <string_view>

#include "server/rpc/executor.h"

namespace nerf {

// Where a unary method is answered, by what it may wait for. `method` is "package.Service/Method".
// Get and List read the queue and wait for nothing; what moves bytes of blobs has its own lanes;
// every other method may change something and wait for a commit.
Lane LaneOf(std::string_view method);

}  // namespace nerf
