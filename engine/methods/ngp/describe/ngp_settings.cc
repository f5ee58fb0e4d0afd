#include "engine/methods/ngp/describe/ngp_settings.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/config/grid_method_settings.h"

namespace nerf {
namespace {

using S = NgpSettings;

constexpr Setting PowerOfTwo(Setting setting) {
  setting.kind = SettingKind::kPowerOfTwo;
  return setting;
}

// What every way to train the field honors.
std::vector<Setting> FieldSettings() {
  std::vector<Setting> settings = {
      SettingOf<&S::finest_resolution>(
          "finest_resolution", 32, 16384,
          "hash encoding: cells of the finest level along the level-0 box, in perspective along "
          "the whole; auto: by the pixels' footprint")
          .OrAuto(),
      SettingOf<&S::initial_density>(
          "initial_density", 1e-3, 1e3,
          "optical depth of an untrained field along a side of the level-0 box"),
      SettingOf<&S::log2_hashmap_size>(
          "log2_hashmap_size", kMinLog2Entries, kMaxLog2Entries,
          "hash encoding: log2 of the entries of a level; auto: by the pixels' footprint and the "
          "budget")
          .OrAuto(),
      SettingOf<&S::mlp_l2>("mlp_l2", 0, 1, "L2 penalty on the MLPs' weights"),
      SettingOf<&S::mlp_rate>("mlp_rate", 1e-4, 100,
                              "Adam: learning rate of the MLPs over that of the hash table"),
      PowerOfTwo(SettingOf<&S::n_features_per_level>(
          "n_features_per_level", 2, 4,
          "hash encoding: features of an entry, 4 on 8 levels or 2 on 16")),
  };
  for (const Setting& setting : GridMethodSettings()) settings.push_back(setting);
  for (const char* key : {"box", "boxes", "distortion", "ema_decay", "loss_scale", "up"})
    settings.push_back(SharedSetting(key));
  return settings;
}

constexpr std::string_view kContractions[] = {"none", "linf", "l2", "perspective", "auto"};

std::string ContractionText(const TrainConfig& config) {
  return std::string(ContractionName(Ngp(config).contraction));
}

absl::Status ParseContraction(std::string_view text, TrainConfig* config) {
  const auto* const found = std::find(std::begin(kContractions), std::end(kContractions), text);
  if (found == std::end(kContractions))
    return absl::InvalidArgumentError("one of auto, none, linf, l2 and perspective");
  Ngp(*config).contraction = static_cast<Contraction>(found - std::begin(kContractions));
  return absl::OkStatus();
}

constexpr std::string_view kFrozenParts[] = {"none", "mlp", "table"};

std::string FrozenText(const TrainConfig& config) {
  return std::string(kFrozenParts[static_cast<int>(Ngp(config).frozen)]);
}

absl::Status ParseFrozen(std::string_view text, TrainConfig* config) {
  const auto* const found = std::find(std::begin(kFrozenParts), std::end(kFrozenParts), text);
  if (found == std::end(kFrozenParts))
    return absl::InvalidArgumentError("one of none, mlp and table");
  Ngp(*config).frozen = static_cast<Frozen>(found - std::begin(kFrozenParts));
  return absl::OkStatus();
}

constexpr std::string_view kSamplers[] = {"grid", "proposals"};

std::string SamplerText(const TrainConfig& config) {
  return std::string(kSamplers[static_cast<int>(Ngp(config).sampler)]);
}

absl::Status ParseSampler(std::string_view text, TrainConfig* config) {
  const auto* const found = std::find(std::begin(kSamplers), std::end(kSamplers), text);
  if (found == std::end(kSamplers)) return absl::InvalidArgumentError("one of grid and proposals");
  Ngp(*config).sampler = static_cast<Sampler>(found - std::begin(kSamplers));
  return absl::OkStatus();
}

constexpr std::string_view kSpacings[] = {"auto", "uniform", "disparity"};

std::string SpacingText(const TrainConfig& config) {
  return std::string(kSpacings[static_cast<int>(Ngp(config).spacing)]);
}

absl::Status ParseSpacing(std::string_view text, TrainConfig* config) {
  const auto* const found = std::find(std::begin(kSpacings), std::end(kSpacings), text);
  if (found == std::end(kSpacings))
    return absl::InvalidArgumentError("one of auto, uniform and disparity");
  Ngp(*config).spacing = static_cast<Spacing>(found - std::begin(kSpacings));
  return absl::OkStatus();
}

const std::vector<Setting>& Sorted(std::vector<Setting> settings) {
  std::sort(settings.begin(), settings.end(),
            [](const Setting& a, const Setting& b) { return a.key < b.key; });
  return *new std::vector<Setting>(std::move(settings));
}

// Of what a pixel or its camera has once, for one ray of one field.
constexpr WaySet kOfPixels = kWithProposals | kWithFourRays | kWithTiles;

// Those that only the fused steps honor, each on some devices.
std::vector<Setting> FusedOnly() {
  return {
      SettingOf<&S::appearance_rate>(
          "appearance_rate", 0, 100,
          "learning rate of a vector of each picture that enters the color MLP, over that of the "
          "hash table; 0: pictures are alike")
          .Not(kWithProposals | kWithTiles | kWithRanks),
      SettingOf<&S::coarse_pictures>(
          "coarse_pictures", 0, 0.95,
          "share of the budget that is trained on pictures of a quarter, then half of their sides; "
          "0: none")
          .Not(kWithTiles),
      SettingOf<&S::coarse_share>(
          "coarse_share", 0, 1,
          "share of the budget until which the finer levels of the hash encoding "
          "come in, one after another; 0: all from the start")
          .Not(kWithTiles),
      TextSetting(
          "contraction",
          "how the hash encoding covers space: linf, l2: all that lies beyond the level-0 "
          "box is brought into twice that box, by that norm; perspective: what cameras that look "
          "one way see, by directions and inverse depth; none: the boxes; auto: perspective for "
          "photographs without alpha that look one way, with COLMAP's points or LLFF's bounds",
          &ContractionText, &ParseContraction)
          .Not(kWithTiles),
      SettingOf<&S::depth_weight>(
          "depth_weight", 0, 100,
          "weight in the loss of how much light ends away from COLMAP's points and from the depths "
          "of depth files, on rays to them; 0: they are not used")
          .Not(kOfPixels | kWithRanks),
      SettingOf<&S::error_share>(
          "error_share", 0, 0.95,
          "share of the pixels that are drawn in proportion to the errors of the parts of pictures "
          "they lie in; 0: all pixels alike")
          .Not(kOfPixels | kWithRanks),
      SettingOf<&S::exposure_rate>(
          "exposure_rate", 0, 100,
          "learning rate of a brightness and tint of each picture over that of the hash table; "
          "0: pictures are alike; auto: 0.3 where neighbors differ by 10%, or 5% in tint, else 0")
          .Not(kWithProposals | kWithTiles | kWithCudaRanks)
          .OrAuto(),
      SettingOf<&S::focal_rate>(
          "focal_rate", 0, 100,
          "learning rate of the lenses' focal lengths, as shares of them, over that of the hash "
          "table; 0: they are as given")
          .Not(kOfPixels | kWithRanks),
      SettingOf<&S::near_gradients>(
          "near_gradients", 0, 1e6,
          "gradients of samples nearer to the camera than this are scaled by the square of their "
          "share of it, in training units: less fog in front of cameras; 0: none")
          .Not(kWithProposals),
      SettingOf<&S::pose_rate>(
          "pose_rate", 0, 100,
          "learning rate of corrections of the pictures' poses over that of the hash table, in "
          "radians and half sides of the level-0 box; 0: poses are as given")
          .Not(kOfPixels | kWithRanks),
      SettingOf<&S::learned_background>(
          "learned_background", 0, 1,
          "1 learns what lies behind the boxes, by direction; 0: black. Of pictures without alpha")
          .Not(kWithTiles),
      SettingOf<&S::half_table>(
          "half_table", 0, 1,
          "1 reads the hash table in half precision, with fp32 masters, and on the CPU keeps its "
          "moments in bf16; 0: the table and its moments in fp32"),
      TextSetting("frozen",
                  "what training leaves as it is: none; mlp, the layers; table, the hash table",
                  &FrozenText, &ParseFrozen)
          .Not(kWithProposals | kWithRanks),
      TextSetting("sampler",
                  "where samples of a ray lie: grid, in the occupied cells of a grid; proposals, "
                  "where a smaller network found density",
                  &SamplerText, &ParseSampler)
          .Not(kWithTiles | kWithRanks),
      TextSetting("spacing",
                  "with sampler=proposals, how the first samples of a ray lie: uniform, or by "
                  "disparity (the inverse distance); auto: uniform with one box",
                  &SpacingText, &ParseSpacing)
          .Not(kWithGrid | kWithTiles),
      SettingOf<&S::proposal_samples>("proposal_samples", 8, 512,
                                      "samples of a ray in the proposal network")
          .Not(kWithGrid | kWithTiles),
      SettingOf<&S::field_samples>("field_samples", 4, 512,
                                   "samples of a ray in the field, with sampler=proposals")
          .Not(kWithGrid | kWithTiles),
      SettingOf<&S::roulette_weight>(
          "roulette_weight", 0, 1,
          "from 30% of the budget on, of a ray's samples with less weight than this some train for "
          "all, by lot; 0: all train; auto: 0.1 of photographs of one side")
          .Not(kWithProposals | kWithTiles)
          .OrAuto()
          .On(kOnCpu)
          .IgnoredElsewhere(),
      SharedSetting("alpha_is_mask"),
      SharedSetting("far"),
      SharedSetting("rays_per_pixel"),
      SharedSetting("cuda_deterministic", kOnCuda),
      SharedSetting("cuda_fp32", kOnCuda)};
}

std::vector<Setting> FusedSettings() {
  std::vector<Setting> settings = FieldSettings();
  for (const Setting& setting : FusedOnly()) settings.push_back(setting);
  return settings;
}

// Files name the settings of FusedOnly with their defaults.
std::vector<Setting> AutogradSettings() {
  std::vector<Setting> settings = FieldSettings();
  for (const Setting& setting : FusedOnly()) settings.push_back(setting.On(kNoDevice));
  return settings;
}

}  // namespace

std::string_view ContractionName(Contraction contraction) {
  return kContractions[static_cast<int>(contraction)];
}

TrainConfig NgpProposalConfig(TrainConfig config) {
  constexpr int kLog2Entries = 15, kFinestResolution = 256;
  NgpSettings& settings = Ngp(config);
  settings.sampler = Sampler::kGrid;
  settings.log2_hashmap_size = std::min(Log2HashmapSize(config), kLog2Entries);
  settings.finest_resolution = std::min(FinestResolution(config), kFinestResolution);
  settings.n_features_per_level = 4;
  ++config.seed;
  return config;
}

std::span<const Setting> NgpSettingTable() {
  static const std::vector<Setting>& table = Sorted(FusedSettings());
  return table;
}

std::span<const Setting> NgpAutogradSettingTable() {
  static const std::vector<Setting>& table = Sorted(AutogradSettings());
  return table;
}

}  // namespace nerf
