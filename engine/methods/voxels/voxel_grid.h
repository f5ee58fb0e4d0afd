#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/vec3.h"
#include "engine/field/occupancy_grid.h"

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

// Parameters at the centers of the cells of a cube of resolution^3, stored in bricks of 4x4x4 cells
// where there are any. Between centers they are interpolated trilinearly, before activations; the
// outermost half cell repeats its neighbor.
class VoxelGrid {
 public:
  // No bricks. resolution: a multiple of 4.
  explicit VoxelGrid(int resolution = 4);
  // The bricks whose entry in mask [(resolution / 4)^3], x fastest, is set, with zeros.
  VoxelGrid(int resolution, const std::vector<bool>& mask);

  int resolution() const { return resolution_; }
  int bricks_per_side() const { return resolution_ / 4; }
  size_t n_bricks() const { return places_.size(); }
  // Index of the brick in the mask, of each stored brick; ascending.
  const std::vector<uint32_t>& places() const { return places_; }
  Buffer<float>& values() { return values_; }  // [n_bricks][kBrickVoxels][kVoxelStride]
  const Buffer<float>& values() const { return values_; }

  // Where the voxel's parameters begin among values(); -1 if it is not stored.
  ptrdiff_t OffsetOf(int x, int y, int z) const {
    const int side = bricks_per_side();
    const int32_t brick =
        bricks_[(static_cast<size_t>(z >> 2) * side + (y >> 2)) * side + (x >> 2)];
    if (brick < 0) return -1;
    const int voxel = (x & 3) + 4 * (y & 3) + 16 * (z & 3);
    return static_cast<ptrdiff_t>(brick) * kBrickFloats + voxel * kVoxelStride;
  }

  // The interpolation at a point of the unit cube: the eight voxels around it.
  struct Corners {
    int low[3], high[3];
    float part[3];  // weight of the higher voxel along each axis
    // Corner i of 8: bit 0 is x, bit 1 y, bit 2 z.
    int Along(int i, int axis) const { return (i >> axis) & 1 ? high[axis] : low[axis]; }
    float Weight(int i) const {
      float weight = 1;
      for (int axis = 0; axis < 3; ++axis) weight *= (i >> axis) & 1 ? part[axis] : 1 - part[axis];
      return weight;
    }
  };
  Corners CornersOf(Vec3 unit) const;
  // row [kVoxelStride] = the parameters at a point of the unit cube.
  void Interpolate(Vec3 unit, float* row) const;
  // The density's exponent alone.
  float Exponent(Vec3 unit) const;

 private:
  friend VoxelGrid Copy(const VoxelGrid& grid);

  int resolution_;
  std::vector<int32_t> bricks_;   // [(resolution / 4)^3], -1: not stored
  std::vector<uint32_t> places_;  // of the stored ones
  Buffer<float> values_;
};

VoxelGrid Copy(const VoxelGrid& grid);

// The bricks of a grid over the outermost box that touch an occupied cell, or a voxel's width
// around one.
std::vector<bool> OccupiedBricks(const OccupancyGrid& occupancy, int resolution);

// `grid` at another resolution with the bricks of `mask`: values are interpolated.
VoxelGrid Resampled(const VoxelGrid& grid, int resolution, const std::vector<bool>& mask);

// Total variation as the sum over all stored voxels of the squared differences to their next
// neighbors along x, y and z:
//   tv = sum over voxels and axes of w_c (value_c(next) - value_c)^2
// with w_c = tv_density for the exponent and tv_color for the rest. A neighbor that is not stored
// does not count. Adds `scale` times the gradient by the voxels of bricks [begin, end) to
// gradients, which are laid out as values(). Source: Rudin et al. 1992; on voxels: Fridovich-Keil
// et al. 2022, "Plenoxels", eq. 3, there with a root.
struct VariationWeights {
  float density = 0, color = 0;
};
void AddVariationGradient(const VoxelGrid& grid, size_t begin, size_t end,
                          const VariationWeights& weights, float scale, float* gradients);

}  // namespace nerf
