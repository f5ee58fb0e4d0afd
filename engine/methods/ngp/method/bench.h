#pragma once

#include <vector>

#include "engine/base/bench.h"
#include "engine/scene/scene.h"
#include "engine/train/method.h"

namespace nerf {

// Method::Benches of ngp: a whole training step, and the parts of one that are not ops.
// `ngp` and `scene` outlive the benches.
std::vector<Bench> NgpBenches(const Method& ngp, const Scene& scene);

}  // namespace nerf
