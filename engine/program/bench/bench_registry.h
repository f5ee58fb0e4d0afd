#pragma once

#include <vector>

#include "engine/base/bench.h"

namespace nerf {

// Every bench of the program, in the order in which it is printed: the machine's ceilings, ops,
// then those of each method.
std::vector<Bench> AllBenches();

}  // namespace nerf
