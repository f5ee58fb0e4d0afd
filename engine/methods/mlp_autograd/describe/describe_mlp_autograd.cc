#include <algorithm>
#include <vector>

#include "engine/config/method_description.h"
#include "engine/config/step_size.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"

namespace nerf {

const MethodDescription& DescribeMlp();

namespace {

constexpr uint64_t kCopies = 3;  // of each activation that LibTorch keeps until the backward pass

class MlpAutogradDescription final : public MethodDescription {
 public:
  std::string_view name() const override { return "mlp-autograd"; }
  std::string_view summary() const override {
    return "the one network of mlp through LibTorch: slow, to check mlp against";
  }
  DeviceSet training_devices() const override { return kOnCpu; }
  DeviceSet rendering_devices() const override { return kOnCpu; }
  // Two networks are trained by mlp alone.
  std::span<const Setting> settings() const override {
    static const auto& table = *[] {
      auto* settings = new std::vector<Setting>();
      for (const Setting& setting : MlpSettingTable()) {
        const bool is_pairs = setting.key == "coarse_samples" || setting.key == "fine_samples" ||
                              setting.key == "far" || setting.key == "depth_planes";
        const bool is_own = setting.key == "autocast" || setting.key == "checkpointing";
        settings->push_back(is_pairs ? setting.On(kNoDevice)
                            : is_own ? setting.On(kOnCpu)
                                     : setting);
      }
      return settings;
    }();
    return table;
  }
  TrainConfig Defaults() const override {
    TrainConfig config = DescribeMlp().Defaults();
    config.method = name();
    return config;
  }
  std::vector<TensorShape> FieldTensors(const TrainConfig& config) const override {
    return DescribeMlp().FieldTensors(config);
  }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override {
    uint64_t rows = MaxStepSamples(config);
    if (Mlp(config).checkpointing != 0) rows = std::min<uint64_t>(rows, kMlpCheckpointRows);
    return DescribeMlp().StepBytes(config, n_levels, n_threads) +
           rows * MlpRowFloats(config) * kCopies * sizeof(float);
  }
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override {
    return DescribeMlp().StateBytes(config, n_levels);
  }
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override {
    return DescribeMlp().CheckStart(start, wanted);
  }
};

}  // namespace

const MethodDescription& DescribeMlpAutograd() {
  static const auto& description = *new MlpAutogradDescription();
  return description;
}

}  // namespace nerf
