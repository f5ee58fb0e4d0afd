#include <functional>

#include "engine/methods/ngp/describe/cuda_lanes.h"
#include "engine/methods/ngp/describe/ngp_field_description.h"
#include "engine/methods/ngp/describe/ngp_memory.h"
#include "engine/methods/ngp/describe/ngp_scene.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

class NgpDescription final : public NgpFieldDescription {
 public:
  std::string_view name() const override { return "ngp"; }
  std::string_view summary() const override {
    return "hash encoding and small MLPs, fused; on the CPU or a CUDA device";
  }
  DeviceSet training_devices() const override { return kOnEveryDevice; }
  DeviceSet rendering_devices() const override { return kOnEveryDevice; }
  std::span<const Setting> settings() const override { return NgpSettingTable(); }
  TrainConfig Defaults() const override { return {}; }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override {
    return NgpCpuStepBytes(config, n_levels, n_threads);
  }
  double ViewerBytes(const TrainConfig& config, int n_levels) const override {
    return NgpViewerBytes(config, n_levels);
  }
  void ChooseSettings(const SceneFacts& scene, TrainConfig* config) const override {
    ChooseContraction(scene, config);
    ChooseNgpSettings(scene, config);
    NgpSettings& settings = Ngp(*config);
    if (settings.roulette_weight == kAutoSetting && settings.sampler == Sampler::kGrid)
      settings.roulette_weight = RouletteWeightFor(scene);
    if (config->rays_per_pixel != kAutoSetting) return;
    TrainConfig chosen = *config;
    chosen.rays_per_pixel = RaysPerPixelFor(scene);
    config->rays_per_pixel = CheckSettings(chosen).ok() ? chosen.rays_per_pixel : 1;
  }
  std::vector<ChoiceRule> ChoiceRules() const override { return NgpChoiceRules(); }
  void ChooseForPictures(const std::function<bool()>& exposures_differ,
                         TrainConfig* config) const override {
    NgpSettings& settings = Ngp(*config);
    if (settings.exposure_rate != kAutoSetting || settings.sampler != Sampler::kGrid) return;
    // Ranks on CUDA devices do not learn them.
    const bool learns =
        settings.appearance_rate == 0 && config->cuda_deterministic == 0 && exposures_differ();
    settings.exposure_rate = learns ? kChosenExposureRate : 0;
  }
  void TakeFromStart(const TrainConfig& start, TrainConfig* config) const override {
    TakeNgpFromStart(start, config);
    Contraction& contraction = Ngp(*config).contraction;
    if (contraction == Contraction::kAuto && start.method_settings.Holds<NgpSettings>())
      contraction = ContractionOf(start);
  }
  void AdaptToStart(TrainConfig* config) const override { AdaptNgpToStart(config); }
  absl::Status CheckRanks(const TrainConfig& config, DeviceSet kind, int n_ranks) const override {
    absl::Status honored = CheckNgpRanks(config, kind, *this);
    if (!honored.ok()) return honored;
    const bool is_on_cuda = (kind & kOnCuda) != 0;
    if (is_on_cuda && config.cuda_deterministic != 0 && n_ranks > kCudaLanes) {
      return absl::InvalidArgumentError(
          fmt::format("settings.cuda_deterministic: at most {} ranks share a step, not {}",
                      kCudaLanes, n_ranks));
    }
    return absl::OkStatus();
  }
  int PictureLevel(const TrainConfig& config, double fraction) const override {
    return NgpPictureLevel(config, fraction);
  }
  bool LearnsDepth(const TrainConfig& config) const override {
    return Ngp(config).depth_weight > 0;
  }
  absl::Status CheckSettings(const TrainConfig& config) const override {
    const absl::Status sampler = CheckNgpSampler(config, *this);
    return sampler.ok() ? CheckNgpRaysPerPixel(config, *this) : sampler;
  }
  absl::Status CheckScene(const SceneFacts& scene, const TrainConfig& config) const override {
    return CheckNgpScene(scene, config);
  }
};

}  // namespace

const MethodDescription& DescribeNgp() {
  static const auto& description = *new NgpDescription();
  return description;
}

}  // namespace nerf
