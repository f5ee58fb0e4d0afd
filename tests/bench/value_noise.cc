#include "tests/bench/value_noise.h"

#include <cmath>

#include "engine/base/philox.h"

namespace nerf {
namespace {

// A hash of a corner of the integer lattice, in [0, 1).
float LatticeValue(uint32_t seed, int x, int y, int z) {
  uint32_t word = seed * 0x9E3779B9u ^ static_cast<uint32_t>(x) * 0x85EBCA6Bu ^
                  static_cast<uint32_t>(y) * 0xC2B2AE35u ^ static_cast<uint32_t>(z) * 0x27D4EB2Fu;
  word = (word ^ (word >> 15)) * 0x2C1B3C6Du;
  word = (word ^ (word >> 12)) * 0x297A2D39u;
  return UniformFloat(word ^ (word >> 15));
}

}  // namespace

float ValueNoise(uint32_t seed, Vec3 p) {
  float weights[2][3];
  int corner[3];
  for (int axis = 0; axis < 3; ++axis) {
    const float floor = std::floor(p[axis]), t = p[axis] - floor;
    corner[axis] = static_cast<int>(floor);
    weights[1][axis] = t * t * (3 - 2 * t);
    weights[0][axis] = 1 - weights[1][axis];
  }
  float sum = 0;
  for (int i = 0; i < 8; ++i) {
    const int dx = i & 1, dy = (i >> 1) & 1, dz = i >> 2;
    sum += weights[dx][0] * weights[dy][1] * weights[dz][2] *
           LatticeValue(seed, corner[0] + dx, corner[1] + dy, corner[2] + dz);
  }
  return sum;
}

}  // namespace nerf
