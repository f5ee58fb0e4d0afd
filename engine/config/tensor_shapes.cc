#include "engine/config/tensor_shapes.h"

#include <algorithm>

#include "fmt/format.h"

namespace nerf {

std::vector<TensorShape> FieldTensorShapes(const TrainConfig& config) {
  const uint32_t entries = uint32_t{1} << config.log2_hashmap_size;
  const auto features = static_cast<uint32_t>(config.n_features_per_level);
  return {
      {"field.hash_table", "F16", {kHashWidth / features, entries, features}},
      {"field.density_mlp.0", "F16", {kHidden, kHashWidth}},
      {"field.density_mlp.1", "F16", {kDensityOutputs, kHidden}},
      {"field.color_mlp.0", "F16", {kHidden, kShFeatures + kDensityOutputs}},
      {"field.color_mlp.1", "F16", {kHidden, kHidden}},
      {"field.color_mlp.2", "F16", {3, kHidden}},
  };
}

absl::Status CheckInitFits(const TrainConfig& config, const std::vector<TensorShape>& held) {
  for (const TensorShape& wanted : FieldTensorShapes(config)) {
    const auto found = std::find_if(held.begin(), held.end(),
                                    [&](const TensorShape& t) { return t.name == wanted.name; });
    if (found == held.end()) {
      return absl::InvalidArgumentError(fmt::format("init: tensor {} is missing", wanted.name));
    }
    if (found->shape != wanted.shape) {
      return absl::InvalidArgumentError(
          fmt::format("init: tensor {} is [{}], the config wants [{}]", wanted.name,
                      fmt::join(found->shape, ", "), fmt::join(wanted.shape, ", ")));
    }
    if (found->dtype != "F16" && found->dtype != "F32") {
      return absl::InvalidArgumentError(
          fmt::format("init: tensor {} is {}, not F16 or F32", wanted.name, found->dtype));
    }
  }
  return absl::OkStatus();
}

}  // namespace nerf
