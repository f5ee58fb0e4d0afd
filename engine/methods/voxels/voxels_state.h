#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/buffer.h"
#include "engine/base/config/train_config.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/occupancy_grid.h"
#include "engine/field/trained_model.h"
#include "engine/methods/voxels/field.h"
#include "engine/methods/voxels/voxel_grid.h"
#include "engine/scene/scene.h"

namespace nerf {

inline constexpr uint32_t kVariationPeriod = 16;  // a brick gets the variation's gradient so seldom

// What trainings of voxels on the CPU and on a device have in common, beside Adam's moments.
struct VoxelsState {
  VoxelGrid grid;
  int n_changes = 0;                  // divisions and prunings so far
  uint32_t updates_since_change = 0;  // of Adam, whose moments restart there
};

VoxelPlacement VoxelPlacementOf(const TrainConfig& config, const SceneGeometry& geometry);
// All voxels of the first resolution.
VoxelsState UntrainedVoxels(const TrainConfig& config);

// Divisions of the voxels and the last pruning that are due when `fraction` is spent.
int VoxelChangesDue(const TrainConfig& config, double fraction);
// Makes them, as far as memory allows: what has to wait is tried again by the next call.
void ChangeVoxels(const TrainConfig& config, double fraction, const OccupancyGrid& occupancy,
                  VoxelsState* state);

// In checkpoints: the state, with moments laid out as the grid's values.
struct VoxelMoments {
  Buffer<float> first, second;
};
void SaveVoxelsState(const TrainConfig& config, const VoxelsState& state,
                     const VoxelMoments& moments, TensorFile* file);
// Errors: InvalidArgument naming what is missing or does not fit.
absl::StatusOr<VoxelsState> LoadVoxelsState(const TrainConfig& config, const TensorFile& file,
                                            VoxelMoments* moments);
// The start of a training, from a model or checkpoint.
absl::StatusOr<VoxelsState> InitialVoxels(const TrainConfig& config, const TensorFile& file);

// Rounds the voxels as a model's are.
std::unique_ptr<TrainedModel> NewVoxelsModel(const VoxelPlacement& placement, VoxelGrid grid,
                                             const SceneGeometry& geometry,
                                             OccupancyGrid occupancy);

}  // namespace nerf
