#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "engine/scene/posing/photographs/colmap_database.h"

namespace nerf {

// The number of the named photographs in the group that holds most of them. Photographs are of one
// group if pairs lead from one to the other.
size_t LargestGroup(const std::vector<ColmapPair>& pairs, const std::set<std::string>& names);

}  // namespace nerf
