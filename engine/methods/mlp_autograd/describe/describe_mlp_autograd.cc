#include "engine/methods/mlp_autograd/describe/describe_mlp_autograd.h"

#include <algorithm>

#include "engine/base/config/step_size.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"

namespace nerf {

const MethodDescription& DescribeMlp();

namespace {

constexpr uint64_t kCopies = 3;  // of each activation that LibTorch keeps until the backward pass

class DescriptionImpl final : public MlpAutogradDescription {
 public:
  std::string_view name() const override { return "mlp-autograd"; }
  std::string_view summary() const override {
    return "the one network of mlp through LibTorch: slow, to check mlp against";
  }
};

}  // namespace

// Two networks are trained by mlp alone.
std::span<const Setting> MlpAutogradDescription::settings() const {
  static const auto& table = *[] {
    auto* settings = new std::vector<Setting>();
    for (const Setting& setting : MlpSettingTable()) {
      const bool is_pairs = setting.key == "coarse_samples" || setting.key == "fine_samples" ||
                            setting.key == "far" || setting.key == "depth_planes";
      const bool is_fused = setting.key == "cuda_deterministic" || setting.key == "cuda_fp32";
      settings->push_back(setting.On(is_pairs || is_fused ? kNoDevice : kOnEveryDevice));
    }
    return settings;
  }();
  return table;
}

TrainConfig MlpAutogradDescription::Defaults() const {
  TrainConfig config = DescribeMlp().Defaults();
  config.method = name();
  return config;
}

std::vector<TensorShape> MlpAutogradDescription::FieldTensors(const TrainConfig& config) const {
  return DescribeMlp().FieldTensors(config);
}

uint64_t MlpAutogradDescription::StepBytes(const TrainConfig& config, int n_levels,
                                           int n_threads) const {
  uint64_t rows = MaxStepSamples(config);
  if (Mlp(config).checkpointing != 0) rows = std::min<uint64_t>(rows, kMlpCheckpointRows);
  return DescribeMlp().StepBytes(config, n_levels, n_threads) +
         rows * MlpRowFloats(config) * kCopies * sizeof(float);
}

uint64_t MlpAutogradDescription::StateBytes(const TrainConfig& config, int n_levels) const {
  return DescribeMlp().StateBytes(config, n_levels);
}

absl::Status MlpAutogradDescription::CheckStart(const TrainedAs& start,
                                                const TrainedAs& wanted) const {
  return DescribeMlp().CheckStart(start, wanted);
}

const MethodDescription& DescribeMlpAutograd() {
  static const auto& description = *new DescriptionImpl();
  return description;
}

}  // namespace nerf
