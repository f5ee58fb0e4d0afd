#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/tensor_file.h"
#include "engine/methods/voxels/voxel_grid.h"

namespace nerf {

// Voxels in files (docs/use/methods.md):
//   field.bricks [B, B, B] (z, y, x): 1 where a brick is stored. B is the number of bricks along a
//     side of the finest grid; only the first voxels.resolution / 4 along each axis are used.
//   field.voxels [n_bricks * 64, 28]: the stored bricks in the order of field.bricks.
//   metadata voxels.resolution.

// Writes field.bricks, and the voxels as `dtype`.
void StoreVoxels(const TrainConfig& config, const VoxelGrid& grid, DType dtype, TensorFile* file);
// Writes further values of the voxels, such as Adam's moments, under `name`.
void StoreVoxelValues(const VoxelGrid& grid, const Buffer<float>& values, const std::string& name,
                      DType dtype, TensorFile* file);

// Errors: InvalidArgument naming what is missing or does not fit.
absl::StatusOr<VoxelGrid> LoadVoxels(const TrainConfig& config, const TensorFile& file);
absl::StatusOr<Buffer<float>> LoadVoxelValues(const VoxelGrid& grid, const TensorFile& file,
                                              const std::string& name);

}  // namespace nerf
