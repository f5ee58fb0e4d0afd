#pragma once

#include <cstdint>
#include <span>

#include "engine/base/config/setting.h"
#include "engine/base/config/train_config.h"

namespace nerf {

// The settings of method voxels beside those of TrainConfig.
struct VoxelsSettings {
  int first_resolution = 64;     // cells along the outermost box at first
  int finest_resolution = 256;   // and at the end; doubled in between
  float subdivide_share = 0.4f;  // of the budget that is spent when the finest is reached
  float initial_density = 1;     // optical depth of an untrained field along the level-0 box
  float tv_density = 1e-8f;      // weight of the variation between neighbors in the loss
  float tv_color = 1e-9f;
  bool operator==(const VoxelsSettings&) const = default;
};

inline const VoxelsSettings& Voxels(const TrainConfig& config) {
  return config.method_settings.Get<VoxelsSettings>();
}
inline VoxelsSettings& Voxels(TrainConfig& config) {
  return config.method_settings.Mutable<VoxelsSettings>();
}

// Bricks of 4x4x4 voxels that a training holds at most: all of the first grid, or one in 12 of the
// finest.
uint64_t VoxelsMostBricks(const TrainConfig& config);

// Sorted by key.
std::span<const Setting> VoxelsSettingTable();

}  // namespace nerf
