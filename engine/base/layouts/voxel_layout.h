#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/check.h"
#include "engine/base/vec3.h"

namespace nerf {

// A voxel's parameters: the exponent of its density (kernels::DensityFromOutput), then the 9
// coefficients of the harmonics of degree 0 to 2 of each color channel, before the sigmoid.
inline constexpr int kVoxelHarmonics = 9;
inline constexpr int kVoxelFloats = 1 + 3 * kVoxelHarmonics;  // 28, used of
inline constexpr int kVoxelStride = 32;                       // two cache lines
inline constexpr int kBrickVoxels = 64;                       // 4 x 4 x 4
inline constexpr int kBrickFloats = kBrickVoxels * kVoxelStride;
// The exponent of a voxel that is not stored: no density.
inline constexpr float kEmptyExponent = -12;

// A cube of resolution^3 voxels in bricks of 4x4x4. bricks [(resolution / 4)^3], x fastest: the
// number of the stored brick, -1 where none is stored. Borrowed.
struct VoxelBricks {
  int resolution = 0;
  const int32_t* bricks = nullptr;

  // Where a voxel's parameters begin among those of [n_bricks][kBrickVoxels][kVoxelStride]; -1 if
  // it is not stored.
  NERF_HD ptrdiff_t OffsetOf(int x, int y, int z) const {
    const int side = resolution / 4;
    const int32_t brick = bricks[(static_cast<size_t>(z >> 2) * side + (y >> 2)) * side + (x >> 2)];
    if (brick < 0) return -1;
    const int voxel = (x & 3) + 4 * (y & 3) + 16 * (z & 3);
    return static_cast<ptrdiff_t>(brick) * kBrickFloats + voxel * kVoxelStride;
  }
};

// The interpolation at a point of the unit cube: the eight voxels around it.
struct VoxelCorners {
  int low[3], high[3];
  float part[3];  // weight of the higher voxel along each axis

  NERF_HD VoxelCorners(Vec3 unit, int resolution) {
    const auto last = static_cast<float>(resolution - 1);
    for (int axis = 0; axis < 3; ++axis) {
      const float at = unit[axis] * static_cast<float>(resolution) - 0.5f;
      const float inside = at > 0 ? (at < last ? at : last) : 0.0f;
      low[axis] = static_cast<int>(inside);
      high[axis] = low[axis] + 1 < resolution ? low[axis] + 1 : resolution - 1;
      part[axis] = inside - static_cast<float>(low[axis]);
    }
  }
  // Corner i of 8: bit 0 is x, bit 1 y, bit 2 z.
  NERF_HD int Along(int i, int axis) const { return (i >> axis) & 1 ? high[axis] : low[axis]; }
  NERF_HD float Weight(int i) const {
    float weight = 1;
    for (int axis = 0; axis < 3; ++axis) weight *= (i >> axis) & 1 ? part[axis] : 1 - part[axis];
    return weight;
  }
  NERF_HD ptrdiff_t OffsetOf(int i, const VoxelBricks& bricks) const {
    return bricks.OffsetOf(Along(i, 0), Along(i, 1), Along(i, 2));
  }
};

}  // namespace nerf
