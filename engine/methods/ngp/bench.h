#pragma once

#include <vector>

#include "engine/base/bench.h"
#include "engine/scene/scene.h"

namespace nerf {

// Method::Benches of ngp: a whole training step, and the parts of one that are not ops.
std::vector<Bench> NgpBenches(const Scene& scene);

}  // namespace nerf
