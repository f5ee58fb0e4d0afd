#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/config/method_description.h"
#include "engine/methods/ngp/describe/ngp_choice.h"
#include "engine/methods/ngp/describe/ngp_memory.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"

namespace nerf {

// What the methods have in common whose model is one ngp field, or several.
class NgpFieldDescription : public MethodDescription {
 public:
  std::vector<TensorShape> FieldTensors(const TrainConfig& config) const override {
    return NgpFieldTensors(config);
  }
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override {
    return NgpStateBytes(config, n_levels);
  }
  void ChooseSettings(const SceneFacts& scene, TrainConfig* config) const override {
    ChooseNgpSettings(scene, config);
  }
  void TakeFromStart(const TrainConfig& start, TrainConfig* config) const override {
    TakeNgpFromStart(start, config);
  }
  void TakeFromTensors(const std::vector<TensorShape>& held, TrainConfig* config) const override {
    TakeNgpFromTensors(held, config);
  }
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override {
    return CheckNgpStart(start, wanted);
  }
};

}  // namespace nerf
