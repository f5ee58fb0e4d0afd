#include "engine/methods/mlp/describe/mlp_layout.h"

#include <algorithm>

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

MlpLayout MlpLayout::WithoutTime() const {
  MlpLayout plain = *this;
  if (!reads_time) return plain;
  plain.reads_time = false;
  plain.size = 0;
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    MlpLayer& layer = plain.layers[i];
    if (i == 0 || (i < depth && i == skip)) layer.n_in -= kMlpTimeWidth;
    layer.weights = plain.size;
    layer.biases = plain.size + static_cast<size_t>(layer.n_in) * layer.n_out;
    plain.size = layer.biases + layer.n_out;
  }
  return plain;
}

std::vector<float> MlpLayout::AtTime(const float* parameters, const float* encoding) const {
  const MlpLayout plain = WithoutTime();
  std::vector<float> folded(plain.size);
  for (size_t i = 0; i < layers.size(); ++i) {
    const MlpLayer &from = layers[i], &to = plain.layers[i];
    const float* const weights = parameters + from.weights;
    float* const biases = folded.data() + to.biases;
    std::copy_n(parameters + from.biases, from.n_out, biases);
    if (from.n_in == to.n_in) {
      std::copy_n(weights, static_cast<size_t>(from.n_in) * from.n_out, folded.data() + to.weights);
      continue;
    }
    const size_t before = size_t{kMlpPositionWidth} * from.n_out;
    const size_t of_time = size_t{kMlpTimeWidth} * from.n_out;
    std::copy_n(weights, before, folded.data() + to.weights);
    std::copy(weights + before + of_time, parameters + from.biases,
              folded.data() + to.weights + before);
    for (int k = 0; k < kMlpTimeWidth; ++k) {
      for (int out = 0; out < from.n_out; ++out)
        biases[out] += encoding[k] * weights[before + static_cast<size_t>(k) * from.n_out + out];
    }
  }
  return folded;
}

std::vector<MlpLayout> MlpNetworks(const TrainConfig& config) {
  if (Mlp(config).time == MlpTime::kWarp)
    return {MlpLayout(config, "field."), MlpLayout(config, "field.warp.", MlpOutputs::kShift)};
  if (Mlp(config).coarse_samples == 0) return {MlpLayout(config, "field.")};
  return {MlpLayout(config, "field.coarse."), MlpLayout(config, "field.fine.")};
}

}  // namespace nerf
