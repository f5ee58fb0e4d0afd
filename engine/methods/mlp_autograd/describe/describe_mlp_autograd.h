#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/base/config/method_description.h"

namespace nerf {

// What methods with a field of mlp through LibTorch have in common: the settings of mlp, but for
// those of two networks, with autocast and checkpointing.
class MlpAutogradDescription : public MethodDescription {
 public:
  DeviceSet training_devices() const override { return kOnEveryDevice; }
  DeviceSet rendering_devices() const override { return kOnEveryDevice; }
  std::span<const Setting> settings() const override;
  TrainConfig Defaults() const override;
  std::vector<TensorShape> FieldTensors(const TrainConfig& config) const override;
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override;
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override;
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override;
};

}  // namespace nerf
