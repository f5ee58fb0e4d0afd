#pragma once

#include <vector>

#include "engine/tool/bench_registry.h"

namespace nerf {

// One bench for each op of engine/kernels, on one core, and the machine's own rate of copying
// beside them.
std::vector<Bench> OpBenches();

}  // namespace nerf
