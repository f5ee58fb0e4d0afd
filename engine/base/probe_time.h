#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/philox.h"
#include "engine/base/vec3.h"

namespace nerf {

// A time, 0 to 1, for a probe of the occupancy grid at a point of the unit cube: at random like its
// place. So the grid of a scene that moves is that of all times.
NERF_HD inline float ProbeTime(uint32_t seed, Vec3 unit) {
  const auto words =
      RandomWords(seed, RandomUse::kGridCell, std::bit_cast<uint32_t>(unit.x),
                  std::bit_cast<uint32_t>(unit.y) ^ (std::bit_cast<uint32_t>(unit.z) << 7));
  return UniformFloat(words[3]);
}

}  // namespace nerf
