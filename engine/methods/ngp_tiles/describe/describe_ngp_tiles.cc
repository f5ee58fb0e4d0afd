#include <algorithm>
#include <iterator>
#include <vector>

#include "engine/methods/ngp/describe/ngp_field_description.h"
#include "engine/methods/ngp/describe/ngp_memory.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

using S = NgpSettings;

// Those of ngp that tiles do not honor: what a scene has once, and other devices'.
constexpr const char* kRefused[] = {
    "contraction",      "cuda_deterministic", "cuda_fp32",    "depth_weight", "exposure_rate",
    "pose_rate",        "learned_background", "coarse_share", "sampler",      "spacing",
    "proposal_samples", "field_samples"};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const Setting& setting : NgpSettingTable()) {
    const bool refused =
        std::find(std::begin(kRefused), std::end(kRefused), setting.key) != std::end(kRefused);
    if (!refused) settings.push_back(setting.On(kOnCpu));
  }
  Setting tiles = SettingOf<&S::tiles>("tiles", 2, kMaxTiles, "fields that space is cut among");
  tiles.kind = SettingKind::kPowerOfTwo;
  settings.push_back(tiles.On(kOnCpu));
  settings.push_back(
      SettingOf<&S::tile_margin>("tile_margin", 0, 0.5,
                                 "how far a tile reaches over its cuts, as a share of the level-0 "
                                 "box's side")
          .On(kOnCpu));
  settings.push_back(SettingOf<&S::tile_blend>("tile_blend", 0, 1,
                                               "1: views blend neighboring tiles in the margin; "
                                               "0: each point is of its own tile alone")
                         .On(kOnCpu));
  std::sort(settings.begin(), settings.end(),
            [](const Setting& a, const Setting& b) { return a.key < b.key; });
  return settings;
}

class NgpTilesDescription final : public NgpFieldDescription {
 public:
  std::string_view name() const override { return "ngp-tiles"; }
  std::string_view summary() const override {
    return "space cut into tiles, each a field of ngp of its own; on the CPU";
  }
  DeviceSet training_devices() const override { return kOnCpu; }
  DeviceSet rendering_devices() const override { return kOnCpu; }
  std::span<const Setting> settings() const override {
    static const auto& settings = *new std::vector<Setting>(Settings());
    return settings;
  }
  TrainConfig Defaults() const override {
    TrainConfig config;
    config.method = name();
    return config;
  }
  std::vector<TensorShape> FieldTensors(const TrainConfig& config) const override {
    const int n_tiles = Ngp(config).tiles;
    std::vector<TensorShape> tensors = {
        {kTileCutsName, "F32", {static_cast<uint32_t>(n_tiles - 1), 2}}};
    for (int tile = 0; tile < n_tiles; ++tile) {
      for (TensorShape& tensor : NgpFieldTensors(config)) {
        tensor.name = TilePrefix(tile) + tensor.name;
        tensors.push_back(std::move(tensor));
      }
    }
    return tensors;
  }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override {
    return Ngp(config).tiles * NgpCpuStepBytes(config, n_levels, n_threads);
  }
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override {
    return Ngp(config).tiles * NgpStateBytes(config, n_levels);
  }
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override {
    if (start.config.method != name()) {
      return absl::InvalidArgumentError(
          fmt::format("trained by method {}, which has no tiles", start.config.method));
    }
    return CheckNgpStart(start, wanted);
  }
};

}  // namespace

const MethodDescription& DescribeNgpTiles() {
  static const auto& description = *new NgpTilesDescription();
  return description;
}

}  // namespace nerf
