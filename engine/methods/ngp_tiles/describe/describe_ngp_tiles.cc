#include <algorithm>
#include <charconv>
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

std::string TileText(const TrainConfig& config) {
  const int tile = Ngp(config).tile;
  return tile == kAllTiles ? "all" : std::to_string(tile);
}

absl::Status ParseTile(std::string_view text, TrainConfig* config) {
  int tile = kAllTiles;
  if (text != "all") {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tile);
    if (error != std::errc() || end != text.data() + text.size() || tile < 0 || tile >= kMaxTiles)
      return absl::InvalidArgumentError(
          fmt::format("all, or a tile's number from 0 to {}", kMaxTiles - 1));
  }
  Ngp(*config).tile = tile;
  return absl::OkStatus();
}

bool HasTile(const TrainConfig& config, int tile) {
  return Ngp(config).tile == kAllTiles || Ngp(config).tile == tile;
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const Setting& setting : NgpSettingTable())
    if ((setting.not_honored & kWithTiles) == 0) settings.push_back(setting);
  Setting tiles = SettingOf<&S::tiles>("tiles", 2, kMaxTiles, "fields that space is cut among");
  tiles.kind = SettingKind::kPowerOfTwo;
  settings.push_back(tiles);
  settings.push_back(
      SettingOf<&S::tile_margin>("tile_margin", 0, 0.5,
                                 "how far a tile reaches over its cuts, as a share of the level-0 "
                                 "box's side"));
  settings.push_back(SettingOf<&S::tile_blend>("tile_blend", 0, 1,
                                               "1: views blend neighboring tiles in the margin; "
                                               "0: each point is of its own tile alone"));
  settings.push_back(TextSetting("tile",
                                 "which tile of independent ones is trained, from 0 on, for "
                                 "`nerf-engine merge`; all: every one",
                                 &TileText, &ParseTile));
  settings.push_back(TextSetting("tile_training",
                                 "independent: each tile learns alone from the rays that meet it; "
                                 "joint: all learn together from whole rays, without a margin",
                                 &TrainingText, &ParseTraining));
  std::sort(settings.begin(), settings.end(),
            [](const Setting& a, const Setting& b) { return a.key < b.key; });
  return settings;
}

// Those that a training holds.
uint64_t TrainedTiles(const TrainConfig& config) {
  return Ngp(config).tile == kAllTiles ? Ngp(config).tiles : 1;
}

// Activations of a chunk's samples in each tile, beside those of NgpCpuStepBytes.
constexpr uint64_t kJointThreadBytes = uint64_t{16} << 20;

class NgpTilesDescription final : public NgpFieldDescription {
 public:
  std::string_view name() const override { return "ngp-tiles"; }
  std::string_view summary() const override {
    return "space cut into tiles, each a field of ngp of its own";
  }
  DeviceSet training_devices() const override { return kOnEveryDevice; }
  DeviceSet rendering_devices() const override { return kOnEveryDevice; }
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
      if (!HasTile(config, tile)) continue;
      for (TensorShape& tensor : NgpFieldTensors(config)) {
        tensor.name = TilePrefix(tile) + tensor.name;
        tensors.push_back(std::move(tensor));
      }
    }
    return tensors;
  }
  // Tiles that train one after another have no visual hull, and each has a grid of its own.
  void ChooseSettings(const SceneFacts& scene, TrainConfig* config) const override {
    SceneFacts without_hull = scene;
    without_hull.may_have_hull = false;
    ChooseNgpSettings(without_hull, config);
  }
  uint64_t StepBytes(const TrainConfig& config, int n_levels, int n_threads) const override {
    const uint64_t n_tiles = TrainedTiles(config);
    const uint64_t step = NgpCpuStepBytes(config, n_levels, n_threads);
    if (Ngp(config).tile_training == TileTraining::kIndependent) return n_tiles * step;
    return step + (n_tiles - 1) * NgpParameterBytes(config) + n_threads * kJointThreadBytes;
  }
  uint64_t StateBytes(const TrainConfig& config, int n_levels) const override {
    return TrainedTiles(config) * NgpStateBytes(config, n_levels);
  }
  absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const override {
    if (start.config.method != name()) {
      return absl::InvalidArgumentError(
          fmt::format("trained by method {}, which has no tiles", start.config.method));
    }
    const int held = Ngp(start.config).tile, trained = Ngp(wanted.config).tile;
    if (held != kAllTiles && held != trained) {
      return absl::InvalidArgumentError(fmt::format(
          "trained with tile={}, and this one has tile={}", held, TileText(wanted.config)));
    }
    return CheckNgpStart(start, wanted);
  }
  absl::Status CheckSettings(const TrainConfig& config) const override {
    const NgpSettings& settings = Ngp(config);
    if (settings.tile == kAllTiles) return absl::OkStatus();
    if (settings.tile >= settings.tiles) {
      return absl::InvalidArgumentError(fmt::format(
          "settings.tile: {} is none of {} tiles, from 0 on", settings.tile, settings.tiles));
    }
    if (settings.tile_training == TileTraining::kIndependent) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "settings.tile: tile_training=joint trains all tiles together; leave it at all");
  }
  std::vector<TrainConfig> Parts(const TrainConfig& config) const override {
    std::vector<TrainConfig> parts;
    const NgpSettings& settings = Ngp(config);
    if (settings.tile_training == TileTraining::kJoint || settings.tile != kAllTiles) return parts;
    for (int tile = 0; tile < settings.tiles; ++tile) {
      parts.push_back(config);
      Ngp(parts.back()).tile = tile;
    }
    return parts;
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
