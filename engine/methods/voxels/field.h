#pragma once

#include "engine/base/aabb.h"
#include "engine/field/radiance_field.h"
#include "engine/methods/voxels/voxel_grid.h"

namespace nerf {

// Where the voxels lie and how their exponents become densities.
struct VoxelPlacement {
  Aabb box;                 // the outermost box; mapped to the unit cube
  float density_shift = 0;  // kernels::DensityFromOutput

  Vec3 ToUnit(Vec3 position) const {
    const Vec3 size = box.Size(), offset = position - box.min;
    return {offset.x / size.x, offset.y / size.y, offset.z / size.z};
  }
};

// The harmonics of degree 0 to 2 of a unit direction [kVoxelHarmonics].
void VoxelHarmonics(Vec3 direction, float* harmonics);
// The color of an interpolated row seen along a direction with these harmonics.
Vec3 VoxelColor(const float* row, const float* harmonics);

// Sparse voxels for evaluation and rendering. Immutable; thread-safe.
// Source: Fridovich-Keil et al. 2022, "Plenoxels: Radiance Fields without Neural Networks".
class VoxelsField final : public RadianceField {
 public:
  VoxelsField(const VoxelPlacement& placement, VoxelGrid grid);

  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override;
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override;
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override;
  uint64_t byte_size() const;
  const VoxelPlacement& placement() const { return placement_; }
  const VoxelGrid& grid() const { return grid_; }

 private:
  const VoxelPlacement placement_;
  const VoxelGrid grid_;
};

}  // namespace nerf
