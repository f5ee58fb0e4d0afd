#pragma once

#include <cstdint>

#include "engine/field/kernels/hash_encoding.h"

// The levels of a hash encoding as the kernels read them, and a point's cell in one of them.
namespace nerf::kernels::cuda {

struct Levels {
  int n_levels;
  uint32_t entries;
  uint32_t dense;  // bit l: level l is indexed directly
  int resolution[kMaxHashLevels];
};

inline Levels LevelsOf(const HashGridShape& shape) {
  Levels levels{shape.n_levels, shape.entries(), 0, {}};
  for (int level = 0; level < shape.n_levels; ++level) {
    levels.resolution[level] = shape.resolution[level];
    if (shape.IsDense(level)) levels.dense |= 1u << level;
  }
  return levels;
}

// The cell of one level that contains a point, and the point's position in it.
struct Cell {
  uint32_t low[3];
  float fraction[3];

  Cell() = default;
  __device__ Cell(Vec3 position, int resolution) {
    const float scale = static_cast<float>(resolution);
    for (int axis = 0; axis < 3; ++axis) {
      // fmaxf returns 0 for NaN.
      const float scaled = fminf(fmaxf(position[axis], 0.0f), 1.0f) * scale;
      const float floor = fminf(floorf(scaled), scale - 1);
      low[axis] = static_cast<uint32_t>(floor);
      fraction[axis] = scaled - floor;
    }
  }
  __device__ bool SameAs(const Cell& other) const {
    return low[0] == other.low[0] && low[1] == other.low[1] && low[2] == other.low[2];
  }
  // Bits 0, 1 and 2 of corner c are set if it is on the far side along x, y and z.
  __device__ float Weight(int c) const {
    const float x = c & 1 ? fraction[0] : 1 - fraction[0];
    const float y = c & 2 ? fraction[1] : 1 - fraction[1];
    const float z = c & 4 ? fraction[2] : 1 - fraction[2];
    return x * y * z;
  }
  __device__ uint32_t IndexOf(int c, const Levels& levels, int level) const {
    return HashGridEntry(low[0] + (c & 1), low[1] + (c >> 1 & 1), low[2] + (c >> 2),
                         levels.resolution[level] + 1u, (levels.dense >> level) & 1,
                         levels.entries - 1);
  }
};

}  // namespace nerf::kernels::cuda
