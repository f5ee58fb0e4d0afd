#include "engine/methods/mlp/describe/mlp_layout.h"

#include "engine/methods/mlp/describe/mlp_settings.h"
#include "fmt/format.h"

namespace nerf {

MlpLayout::MlpLayout(const TrainConfig& config, const std::string& prefix, MlpOutputs outputs)
    : outputs(outputs),
      width(Mlp(config).width),
      depth(Mlp(config).depth),
      skip(Mlp(config).skip < depth ? Mlp(config).skip : 0),
      feature_relu(Mlp(config).feature_relu != 0),
      reads_time(Mlp(config).time == MlpTime::kInput || outputs == MlpOutputs::kShift) {
  const auto add = [&](const std::string& name, int n_in, int n_out, int n_out_used) {
    MlpLayer layer{prefix + name, n_in, n_out, n_out_used, size, 0};
    layer.biases = size + static_cast<size_t>(n_in) * n_out;
    size = layer.biases + n_out;
    layers.push_back(std::move(layer));
  };
  for (int i = 0; i < depth; ++i) {
    int n_in = i == 0 ? input_width() : width;
    if (i > 0 && i == skip) n_in += input_width();
    add(fmt::format("trunk.{}", i), n_in, width, width);
  }
  if (outputs == MlpOutputs::kShift) {
    add("shift", width, kMlpOutputWidth, 3);
    return;
  }
  add("density", width, kMlpOutputWidth, 1);
  add("feature", width, width, width);
  add("color_hidden", width + kMlpDirectionWidth, width / 2, width / 2);
  add("color", width / 2, kMlpOutputWidth, 3);
}

std::vector<MlpLayout> MlpNetworks(const TrainConfig& config) {
  if (Mlp(config).time == MlpTime::kWarp)
    return {MlpLayout(config, "field."), MlpLayout(config, "field.warp.", MlpOutputs::kShift)};
  if (Mlp(config).coarse_samples == 0) return {MlpLayout(config, "field.")};
  return {MlpLayout(config, "field.coarse."), MlpLayout(config, "field.fine.")};
}

}  // namespace nerf
