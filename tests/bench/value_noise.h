#pragma once

#include <cstdint>

#include "engine/base/vec3.h"

namespace nerf {

// Smooth noise with features of unit size, in [0, 1): values of the integer lattice's corners,
// blended.
float ValueNoise(uint32_t seed, Vec3 p);

}  // namespace nerf
