#pragma once

#include <span>

#include "engine/config/setting.h"
#include "engine/config/train_config.h"

namespace nerf {

// The settings of method mlp beside those of TrainConfig.
struct MlpSettings {
  int width = 256;       // of the hidden layers
  int depth = 8;         // hidden layers of the trunk
  int skip = 5;          // this hidden layer, counted from 0, also reads the position; 0: none
  int feature_relu = 0;  // 1: ReLU behind the layer between trunk and color
  // Two networks with hierarchical samples in place of one with the occupancy grid; 0: one.
  int coarse_samples = 0;
  int fine_samples = 128;
  float far = -1;        // where rays of two networks end; negative: where they leave the box
  int depth_planes = 0;  // 1: near and far are planes before the camera, not distances
  // Of mlp-autograd. 1: layers multiply in bf16.
  int autocast = 0;
  // Of mlp-autograd. 1: activations are evaluated again in the backward pass instead of kept.
  int checkpointing = 0;
  bool operator==(const MlpSettings&) const = default;
};

inline const MlpSettings& Mlp(const TrainConfig& config) {
  return config.method_settings.Get<MlpSettings>();
}
inline MlpSettings& Mlp(TrainConfig& config) {
  return config.method_settings.Mutable<MlpSettings>();
}

// Sorted by key.
std::span<const Setting> MlpSettingTable();

}  // namespace nerf
