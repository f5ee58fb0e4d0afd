#pragma once

#include <span>
#include <string_view>

#include "engine/base/config/setting.h"
#include "engine/base/config/train_config.h"

namespace nerf {

// How a field depends on time: not at all, as an input, or by points that are moved before they are
// looked up.
enum class MlpTime { kNone, kInput, kWarp };

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
  // Of methods through LibTorch. 1: layers multiply in bf16.
  int autocast = 0;
  // Of methods through LibTorch. 1: activations are evaluated again in the backward pass instead of
  // kept.
  int checkpointing = 0;
  MlpTime time = MlpTime::kNone;  // of the method, no setting
  bool operator==(const MlpSettings&) const = default;
};

inline const MlpSettings& Mlp(const TrainConfig& config) {
  return config.method_settings.Get<MlpSettings>();
}
inline MlpSettings& Mlp(TrainConfig& config) {
  return config.method_settings.Mutable<MlpSettings>();
}

// The method that renders the models of a config, for TrainedModel::method.
inline std::string_view MlpModelName(const TrainConfig& config) {
  switch (Mlp(config).time) {
    case MlpTime::kInput:
      return "t-nerf";
    case MlpTime::kWarp:
      return "d-nerf";
    default:
      return "mlp";
  }
}

// Sorted by key.
std::span<const Setting> MlpSettingTable();

}  // namespace nerf
