#pragma once

#include <memory>
#include <vector>

#include "engine/train/group/group.h"

namespace nerf {

// Ranks that are threads of this process: element i is rank i, used by a thread of its own. A rank
// whose element is destroyed is lost to the others. For tests and as the reference of the seam.
std::vector<std::unique_ptr<Group>> NewThreadGroups(int n_ranks);

}  // namespace nerf
