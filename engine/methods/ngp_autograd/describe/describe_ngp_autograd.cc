#include "engine/base/config/step_size.h"
#include "engine/methods/ngp/describe/ngp_field_description.h"
#include "engine/methods/ngp/describe/ngp_memory.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"

namespace nerf {
namespace {

// LibTorch keeps this much per sample until the backward pass, most of it for the eight corners of
// sixteen levels.
constexpr uint64_t kAutogradSampleBytes = uint64_t{16} << 10;

class NgpAutogradDescription final : public NgpFieldDescription {
 public:
  std::string_view name() const override { return "ngp-autograd"; }
  std::string_view summary() const override {
    return "the field of ngp with LibTorch's gradients: slow, to check ngp against";
  }
  DeviceSet training_devices() const override { return kOnEveryDevice; }
  DeviceSet rendering_devices() const override { return kOnEveryDevice; }
  std::span<const Setting> settings() const override { return NgpAutogradSettingTable(); }
  TrainConfig Defaults() const override {
    TrainConfig config;
    config.method = name();
    // Not chosen for this method.
    Ngp(config).contraction = Contraction::kNone;
    Ngp(config).exposure_rate = 0;
    return config;
  }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override {
    return NgpCpuStepBytes(WithoutHalfTable(config), n_levels, n_threads) +
           MaxStepSamples(config) * kAutogradSampleBytes;
  }
  double ViewerBytes(const TrainConfig& config, int n_levels) const override {
    return NgpViewerBytes(config, n_levels);
  }
  void AdaptToStart(TrainConfig* config) const override { AdaptNgpToStart(config); }
  absl::Status CheckRanks(const TrainConfig&, DeviceSet, int) const override {
    return absl::OkStatus();
  }
};

}  // namespace

const MethodDescription& DescribeNgpAutograd() {
  static const auto& description = *new NgpAutogradDescription();
  return description;
}

}  // namespace nerf
