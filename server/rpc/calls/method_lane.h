#pragma once

#include <string_view>

#include "server/rpc/calls/executor.h"

namespace nerf {

// The lane of a unary method, "package.Service/Method": the quick one for Get and List, which only
// read the queue; lanes of their own for methods that read or write blobs; that of commits for all
// others.
Lane LaneOf(std::string_view method);

}  // namespace nerf
