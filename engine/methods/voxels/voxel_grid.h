#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/layouts/voxel_layout.h"
#include "engine/base/vec3.h"
#include "engine/field/occupancy_grid.h"

namespace nerf {

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

  const std::vector<int32_t>& bricks() const { return bricks_; }  // as VoxelBricks has them

  // Where the voxel's parameters begin among values(); -1 if it is not stored.
  ptrdiff_t OffsetOf(int x, int y, int z) const {
    return VoxelBricks{resolution_, bricks_.data()}.OffsetOf(x, y, z);
  }
  VoxelCorners CornersOf(Vec3 unit) const { return {unit, resolution_}; }
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
