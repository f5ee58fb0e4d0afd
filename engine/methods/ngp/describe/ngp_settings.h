#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "engine/base/config/setting.h"
#include "engine/base/config/train_config.h"
#include "engine/base/contraction.h"

namespace nerf {

// The parameters that training leaves as they are.
enum class Frozen { kNone, kMlp, kTable };

// Where samples of a ray lie: in the occupied cells of a grid, or where a smaller network, the
// proposal, found density.
enum class Sampler { kGrid, kProposals };
// How proposal samples lie along a ray: at even distances; at even steps of the inverse distance;
// the first with one box, the second with more.
enum class Spacing { kAuto, kUniform, kDisparity };

// How the fields of ngp-tiles learn: each alone, from the rays that meet its tile; or all at once,
// from whole rays.
enum class TileTraining { kIndependent, kJoint };
inline constexpr int kAllTiles = -1;

// The settings that the ngp field has beside those of TrainConfig.
struct NgpSettings {
  int log2_hashmap_size = kAutoSetting;  // see Log2HashmapSize
  int n_features_per_level = 4;          // 4 on 8 levels or 2 on 16
  int finest_resolution = kAutoSetting;  // cells along the level-0 box; see FinestResolution
  float coarse_share = 0;                // share of the budget until all levels take part
  float coarse_pictures = 0;             // share of the budget that draws from reduced pictures
  float initial_density = 1;  // optical depth of an untrained field along the level-0 box
  float mlp_rate = 0.2f;      // learning rate of the MLPs, as a factor of the table's
  float mlp_l2 = 0;
  int half_table = 1;
  Contraction contraction = Contraction::kAuto;  // see ContractionOf
  int learned_background = 0;                    // behind the boxes
  float error_share = 0;  // of a batch's pixels, drawn by the errors of the pictures' parts
  float exposure_rate = kAutoSetting;  // see ExposureRate
  float appearance_rate = 0;  // learning rate of the views' appearances over the table's; 0: none
  float depth_weight = 0;     // in the loss, of depths of COLMAP's points and files
  float pose_rate = 0;        // learning rate of the views' poses over the table's; 0: none
  float focal_rate = 0;       // learning rate of lenses' focal lengths, likewise
  float near_gradients = 0;   // distance up to which gradients are scaled down, training units
  float roulette_weight = kAutoSetting;  // see RouletteWeight
  float warp_rate = 0.1f;  // of method dynamic: learning rate of the warp over the MLPs'
  Frozen frozen = Frozen::kNone;
  Sampler sampler = Sampler::kGrid;
  // With proposals:
  Spacing spacing = Spacing::kAuto;
  int proposal_samples = 64;  // of a ray in the proposal network
  int field_samples = 32;     // and in the field
  // Of method ngp-tiles alone.
  int tiles = 2;              // 2^n
  float tile_margin = 0.05f;  // on both sides of a cut, as a share of the level-0 box's side
  int tile_blend = 1;         // 0: a point is of one tile alone
  TileTraining tile_training = TileTraining::kIndependent;  // kJoint: without margin and blend
  int tile = kAllTiles;  // that this training trains, of independent ones
  bool operator==(const NgpSettings&) const = default;
};

inline const NgpSettings& Ngp(const TrainConfig& config) {
  return config.method_settings.Get<NgpSettings>();
}
inline NgpSettings& Ngp(TrainConfig& config) {
  return config.method_settings.Mutable<NgpSettings>();
}

// The range of log2_hashmap_size.
inline constexpr int kMinLog2Entries = 12, kMaxLog2Entries = 22;

// The two settings; where they are "auto", as for small pictures (ngp_choice.h).
inline int Log2HashmapSize(const TrainConfig& config) {
  constexpr int kOfSmallPictures = 17;
  const int chosen = Ngp(config).log2_hashmap_size;
  return chosen == kAutoSetting ? kOfSmallPictures : chosen;
}
inline int FinestResolution(const TrainConfig& config) {
  constexpr int kOfSmallPictures = 1024;
  const int chosen = Ngp(config).finest_resolution;
  return chosen == kAutoSetting ? kOfSmallPictures : chosen;
}

// The setting; where it is "auto", the boxes alone.
inline Contraction ContractionOf(const TrainConfig& config) {
  const Contraction chosen = Ngp(config).contraction;
  return chosen == Contraction::kAuto ? Contraction::kNone : chosen;
}

// Learning rate of the views' exposures over the table's; 0: there are none. The setting; where it
// is "auto", 0.
inline float ExposureRate(const TrainConfig& config) {
  return std::max(0.0f, Ngp(config).exposure_rate);
}

// "none", "perspective".
std::string_view ContractionName(Contraction contraction);

// log2 of the unit cube's side over the side that finest_resolution counts cells along: that of the
// level-0 box, or with kPerspective the cube's own. n_boxes: SceneGeometry::n_levels.
inline int EncodingDoublings(const TrainConfig& config, int n_boxes) {
  switch (ContractionOf(config)) {
    case Contraction::kPerspective:
      return 0;
    case Contraction::kLinf:
    case Contraction::kL2:
      return 1;
    default:
      return n_boxes - 1;
  }
}

// The weight from which on all samples of a ray train at a fraction of the budget (RayRoulette);
// 0: whatever their weight. While the field takes shape, all do. The roulette prefers rays whose
// light comes from one place, which fog near the cameras offers first.
inline float RouletteWeight(const TrainConfig& config, double fraction) {
  constexpr double kRouletteBegin = 0.3;
  const float weight = Ngp(config).roulette_weight;
  return weight == kAutoSetting || fraction < kRouletteBegin ? 0 : weight;
}

// MethodDescription::PictureLevel of ngp: 2 for the first half of coarse_pictures, then 1.
inline int NgpPictureLevel(const TrainConfig& config, double fraction) {
  const double share = Ngp(config).coarse_pictures;
  if (fraction >= share) return 0;
  return fraction >= share / 2 ? 1 : 2;
}

// The config of the proposal network, which is an ngp field with a smaller encoding.
TrainConfig NgpProposalConfig(TrainConfig config);

// Every setting that ngp honors, sorted by key. On the CPU the table may be kept in half precision
// and levels may come in one after another; a CUDA device does neither, and has settings of its
// own.
std::span<const Setting> NgpSettingTable();
// The same for ngp-autograd, which trains in fp32 throughout: what only the fused steps honor has
// no devices there.
std::span<const Setting> NgpAutogradSettingTable();

}  // namespace nerf
