#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
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
    "appearance_rate", "contraction",      "cuda_deterministic", "cuda_fp32",    "depth_weight",
    "exposure_rate",   "pose_rate",        "learned_background", "coarse_share", "sampler",
    "spacing",         "proposal_samples", "field_samples"};

constexpr std::string_view kTrainings[] = {"independent", "joint"};

std::string TrainingText(const TrainConfig& config) {
  return std::string(kTrainings[static_cast<int>(Ngp(config).tile_training)]);
}

absl::Status ParseTraining(std::string_view text, TrainConfig* config) {
  const auto* const found = std::find(std::begin(kTrainings), std::end(kTrainings), text);
  if (found == std::end(kTrainings))
    return absl::InvalidArgumentError("one of independent and joint");
  Ngp(*config).tile_training = static_cast<TileTraining>(found - std::begin(kTrainings));
  return absl::OkStatus();
}

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
  settings.push_back(TextSetting("tile_training",
                                 "independent: each tile learns alone from the rays that meet it; "
                                 "joint: all learn together from whole rays, without a margin",
                                 &TrainingText, &ParseTraining)
                         .On(kOnCpu));
  std::sort(settings.begin(), settings.end(),
            [](const Setting& a, const Setting& b) { return a.key < b.key; });
  return settings;
}

// Activations of a chunk's samples in each tile, beside those of NgpCpuStepBytes.
constexpr uint64_t kJointThreadBytes = uint64_t{16} << 20;

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
    const uint64_t n_tiles = Ngp(config).tiles;
    const uint64_t step = NgpCpuStepBytes(config, n_levels, n_threads);
    if (Ngp(config).tile_training == TileTraining::kIndependent) return n_tiles * step;
    return step + (n_tiles - 1) * NgpParameterBytes(config) + n_threads * kJointThreadBytes;
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
  absl::Status CheckScene(const SceneFacts& /*scene*/, const TrainConfig& config) const override {
    const NgpSettings& settings = Ngp(config);
    if (settings.tile_training == TileTraining::kIndependent || settings.near_gradients == 0)
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        "settings.near_gradients: tile_training=joint does not honor it; leave it at 0");
  }
};

}  // namespace

const MethodDescription& DescribeNgpTiles() {
  static const auto& description = *new NgpTilesDescription();
  return description;
}

}  // namespace nerf
