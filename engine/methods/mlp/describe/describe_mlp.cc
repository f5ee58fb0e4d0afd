#include <algorithm>
#include <string_view>

#include "engine/base/config/method_description.h"
#include "engine/base/config/step_size.h"
#include "engine/methods/mlp/describe/mlp_layout.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "fmt/format.h"

namespace nerf {
namespace {

size_t ParametersOf(const TrainConfig& config) {
  size_t n = 0;
  for (const MlpLayout& network : MlpNetworks(config)) n += network.size;
  return n;
}

size_t GridCells(const TrainConfig& config, int n_levels) {
  if (Mlp(config).coarse_samples > 0) return 0;
  const auto side = static_cast<size_t>(GridResolution(config));
  return static_cast<size_t>(n_levels) * side * side * side;
}

class MlpDescription final : public MethodDescription {
 public:
  std::string_view name() const override { return "mlp"; }
  std::string_view summary() const override {
    return "vanilla NeRF: one wide MLP on a grid, or coarse and fine";
  }
  DeviceSet training_devices() const override { return kOnEveryDevice; }
  DeviceSet rendering_devices() const override { return kOnEveryDevice; }
  std::span<const Setting> settings() const override { return MlpSettingTable(); }
  TrainConfig Defaults() const override {
    TrainConfig config;
    config.method = name();
    config.budget = {BudgetKind::kSamples, 20e6};
    config.learning_rate = 1e-3f;
    config.beta2 = 0.999f;
    config.epsilon = 1e-8f;
    config.distortion = 0;
    config.loss_scale = 1;
    config.target_samples = 4096;
    config.initial_rays = 64;
    config.batch_growth = 2;
    config.min_transmittance = 1e-2f;
    return config;
  }
  std::vector<TensorShape> FieldTensors(const TrainConfig& config) const override {
    std::vector<TensorShape> tensors;
    for (const MlpLayout& network : MlpNetworks(config)) {
      for (const MlpLayer& layer : network.layers) {
        const auto n_in = static_cast<uint32_t>(layer.n_in),
                   n_out = static_cast<uint32_t>(layer.n_out);
        tensors.push_back({layer.name + ".weights", "F16", {n_in, n_out}});
        tensors.push_back({layer.name + ".biases", "F16", {n_out}});
      }
    }
    return tensors;
  }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override {
    const size_t row = MlpRowFloats(config) * sizeof(float);
    return ParametersOf(config) * (6 + kMlpGradientLanes) * sizeof(float) +
           GridCells(config, n_levels) * (sizeof(float) + 1) + n_threads * row * kMlpThreadRows +
           MaxStepSamples(config) * 2 * sizeof(float);
  }
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override {
    return (4 * ParametersOf(config) + GridCells(config, n_levels)) * sizeof(float);
  }
  absl::Status CheckSettings(const TrainConfig& config) const override {
    if (Mlp(config).coarse_samples == 0) {
      return CheckAtDefaults(settings(), kWithOneNetwork, "coarse_samples=0", config, Defaults());
    }
    return CheckAtDefaults(settings(), kWithTwoNetworks, "training with coarse_samples", config,
                           Defaults());
  }
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override {
    if (!start.config.method_settings.Holds<MlpSettings>()) {
      return absl::InvalidArgumentError(
          fmt::format("trained by method {}, whose field is another one", start.config.method));
    }
    const MlpSettings &held = Mlp(start.config), &asked = Mlp(wanted.config);
    if (held.time != asked.time) {
      return absl::InvalidArgumentError(fmt::format(
          "trained by method {}, whose field depends on time otherwise", start.config.method));
    }
    if (held.skip != asked.skip || held.feature_relu != asked.feature_relu) {
      return absl::InvalidArgumentError(
          fmt::format("trained with skip {} and feature_relu {}, the config wants {} and {}",
                      held.skip, held.feature_relu, asked.skip, asked.feature_relu));
    }
    return absl::OkStatus();
  }
};

}  // namespace

size_t MlpRowFloats(const TrainConfig& config) {
  size_t n = kMlpDirectionWidth;
  for (const MlpLayout& network : MlpNetworks(config)) {
    n += network.input_width() + static_cast<size_t>(network.width) * (network.depth + 4) +
         3 * kMlpOutputWidth;
    if (Mlp(config).coarse_samples > 0) break;  // one network at a time
  }
  return n;
}

const MethodDescription& DescribeMlp() {
  static const auto& description = *new MlpDescription();
  return description;
}

}  // namespace nerf
