#include <algorithm>
#include <vector>

#include "engine/base/config/method_description.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/base/layouts/warp_layers.h"
#include "engine/methods/ngp/describe/ngp_memory.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Those of ngp that this step honors too.
constexpr const char* kHonored[] = {"alpha_threshold",
                                    "apply_exif",
                                    "batch_growth",
                                    "beta1",
                                    "beta2",
                                    "coarse_share",
                                    "cone",
                                    "cuda_deterministic",
                                    "cuda_fp32",
                                    "distortion",
                                    "ema_decay",
                                    "epsilon",
                                    "evaluate",
                                    "finest_resolution",
                                    "grid_decay",
                                    "grid_resolution",
                                    "grid_threshold",
                                    "grid_update_interval",
                                    "half_table",
                                    "huber_delta",
                                    "initial_density",
                                    "initial_rays",
                                    "initial_step_scale",
                                    "learning_rate",
                                    "log2_hashmap_size",
                                    "loss",
                                    "loss_scale",
                                    "max_rays",
                                    "max_side",
                                    "min_transmittance",
                                    "mlp_l2",
                                    "mlp_rate",
                                    "n_features_per_level",
                                    "near",
                                    "poses",
                                    "step",
                                    "target_samples",
                                    "warmup_steps"};

constexpr uint64_t kRowBytes = 3072;  // activations of a sample

class DynamicDescription final : public MethodDescription {
 public:
  std::string_view name() const override { return "dynamic"; }
  std::string_view summary() const override {
    return "the field of ngp as a function of time, for moving scenes; on the CPU or a CUDA device";
  }
  DeviceSet training_devices() const override { return kOnEveryDevice; }
  DeviceSet rendering_devices() const override { return kOnEveryDevice; }
  std::span<const Setting> settings() const override {
    static const auto& table = *[] {
      auto* settings = new std::vector<Setting>();
      for (const Setting& setting : NgpSettingTable()) {
        const bool honored =
            std::find(std::begin(kHonored), std::end(kHonored), setting.key) != std::end(kHonored);
        if (honored) settings->push_back(setting);
      }
      settings->push_back(SettingOf<&NgpSettings::warp_rate>(
          "warp_rate", 0, 100,
          "Adam: learning rate of what moves points over that of the other MLPs"));
      std::sort(settings->begin(), settings->end(),
                [](const Setting& a, const Setting& b) { return a.key < b.key; });
      return settings;
    }();
    return table;
  }
  TrainConfig Defaults() const override {
    TrainConfig config;
    config.method = name();
    // One picture a moment shows little, and finer detail is learned from it alone.
    config.distortion = 0.01f;
    Ngp(config).coarse_share = 0.5f;
    Ngp(config).warp_rate = 1;
    Ngp(config).log2_hashmap_size = Log2HashmapSize(config);
    Ngp(config).finest_resolution = 256;
    return config;
  }
  std::vector<TensorShape> FieldTensors(const TrainConfig& config) const override {
    std::vector<TensorShape> tensors = NgpFieldTensors(config);
    for (const WarpLayer& layer : kWarpLayers) {
      tensors.push_back({layer.tensor_name,
                         "F16",
                         {static_cast<uint32_t>(layer.n_in), static_cast<uint32_t>(layer.n_out)}});
    }
    return tensors;
  }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override {
    return NgpCpuStepBytes(config, n_levels, n_threads) + n_threads * kRowBytes * 4096;
  }
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override {
    return NgpStateBytes(config, n_levels) + uint64_t{4} * kWarpWeights * sizeof(float);
  }
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override {
    if (start.config.method != name()) {
      return absl::InvalidArgumentError(
          fmt::format("trained by method {}, whose field is another one", start.config.method));
    }
    return CheckNgpStart(start, wanted);
  }
  void AdaptToStart(TrainConfig* config) const override { AdaptNgpToStart(config); }
};

}  // namespace

const MethodDescription& DescribeDynamic() {
  static const auto& description = *new DynamicDescription();
  return description;
}

}  // namespace nerf
