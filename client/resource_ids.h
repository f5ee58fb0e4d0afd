#pragma once

#include <string>
#include <vector>

#include "client/names.h"

namespace nerf {

class Session;

// The short ids of the newest 100 resources of a kind in the project, for completion and for
// suggestions. Empty on any error.
std::vector<std::string> ListShortIds(Session& session, ResourceKind kind);

}  // namespace nerf
