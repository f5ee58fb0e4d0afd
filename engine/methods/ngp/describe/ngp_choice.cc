#include "engine/methods/ngp/describe/ngp_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/base/ngp_layers.h"
#include "engine/base/pixel_offset.h"
#include "engine/config/start_shape.h"
#include "engine/config/step_size.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

static_assert(kMaxTableEntries == 1u << kMaxLog2Entries);

// Found on pictures of 100 to 200 pixels with tables, levels and steps in proportion
// (docs/use/settings.md).
constexpr double kPixelsOfTable = 300;  // along the box, that the default table suits
constexpr double kPixelsOfStep = 413;   // and the default step, of 1.4 pixels there
constexpr int kMaxDoublings = 2;        // of the latter; more were not measured
// Samples for each pixel of the training pictures from which on a larger table earns what it costs
// in time, and shorter steps what they cost in rays. Those of objects, about a quarter of which
// show something; photographs without alpha need more.
constexpr double kBudgetForTable = 3, kBudgetForSteps = 6, kTimesWithoutAlpha = 4;
// For rays that go on in faint light: at 10 lego_400 loses 0.2 dB by it, at 14 mic_800 gains 1.2.
// Photographs without alpha get fog near the cameras from it.
constexpr double kBudgetForFaintLight = 16, kBudgetForFaintLightOfLarge = 10;
constexpr double kPixelsOfLarge = 600;  // along the box
// For several rays of a pixel: lego_200 gains nothing by them at 5 and 0.8 dB at 10, lego_400
// 0.6. mic_800 loses 0.2 dB at 16 (more was not measured), and photographs, which are blurred over
// more than a pixel, 0.6.
constexpr double kBudgetForRaysOfPixel = 8;
constexpr float kFaintLight = 1e-3f;
// Small budgets of samples are spent in more steps: 4 M samples of photographs gain 3 dB by it, of
// an object 2. Smaller first steps than kLeastTarget were not measured. A field that is learned
// already loses 2 dB of 34 in small steps.
constexpr double kTargetsOfBudget = 2048;
constexpr double kLeastTarget = 1024;
constexpr int kMostLog2Entries = 19;  // 1.2 GB with moments and averages
// Photographs of one side (docs/use/settings.md). Depth is told by few cameras that stand close
// together, so long steps and a coarse finest level lose nothing, and each step has more rays.
constexpr float kLongerSteps = 2, kInitialScaleOfOneSide = 12;
constexpr double kPixelsOfFinestCell = 2, kPixelsOfPerspectiveCell = 1;
constexpr int kLeastFinestOfOneSide = 256, kMostFinestOfOneSide = 2048;
// Cells of 1.6 pixels of lego_200 already gain by being halved: fewer samples lie in empty space.
// Where pictures show what is empty, the cells that are left take little time.
constexpr double kPixelsOfGrid = 150;
constexpr int kFineGridResolution = 256;

// How many times `pixels` doubles up to pixels_along_box, times per_doubling; at least 0.
int Doublings(const SceneFacts& scene, double pixels, int per_doubling) {
  if (!(scene.pixels_along_box > pixels)) return 0;
  const double doublings = per_doubling * std::log2(scene.pixels_along_box / pixels);
  return static_cast<int>(std::round(std::min(doublings, 64.0)));
}

bool HasSamplesForEachPixel(const SceneFacts& scene, double samples) {
  const double asked = samples * (scene.has_alpha || scene.faces_one_way ? 1 : kTimesWithoutAlpha);
  return scene.n_pixels > 0 && scene.n_samples >= asked * scene.n_pixels;
}

// The first steps of objects are at most three times 1.4 pixels long. Those of small pictures are
// shorter: with 4.2 pixels lego_200 on white left white fog, which no white view shows.
float FirstStepFactor(const SceneFacts& scene) {
  if (!scene.has_alpha || !(scene.pixels_along_box > kPixelsOfStep)) return 1;
  return static_cast<float>(kPixelsOfStep / scene.pixels_along_box);
}

int Log2EntriesFor(const SceneFacts& scene, int of_small_pictures) {
  const int larger =
      std::min(Doublings(scene, kPixelsOfTable, 2), kMostLog2Entries - of_small_pictures);
  if (HasSamplesForEachPixel(scene, kBudgetForTable)) return of_small_pictures + larger;
  return of_small_pictures + (scene.has_alpha ? std::max(0, larger - 1) : 0);
}

// For cells of about so many pixels.
int FinestFor(double pixels, double of_cell) {
  int finest = kLeastFinestOfOneSide;
  while (finest < kMostFinestOfOneSide && 2 * of_cell * finest <= 1.5 * pixels) finest *= 2;
  return finest;
}

// What photographs of one side get in place of the choices by pixels below.
void ChooseForOneSide(const SceneFacts& scene, TrainConfig* config) {
  NgpSettings& settings = Ngp(*config);
  if (settings.finest_resolution == kAutoSetting)
    settings.finest_resolution = FinestFor(scene.pixels_along_box, kPixelsOfFinestCell);
  const bool has_own_step = config->step >= 0;
  if (config->initial_step_scale == kAutoSetting && !has_own_step)
    config->initial_step_scale = kInitialScaleOfOneSide;
  if (!has_own_step && scene.step > 0) config->step = kLongerSteps * scene.step;
  if (config->cone < 0 && scene.cone > 0) config->cone = kLongerSteps * scene.cone;
}

}  // namespace

void ChooseContraction(const SceneFacts& scene, TrainConfig* config) {
  NgpSettings& settings = Ngp(*config);
  if (settings.contraction == Contraction::kAuto) {
    const bool fits = scene.has_frustum && !scene.has_alpha && settings.sampler == Sampler::kGrid &&
                      settings.learned_background == 0;
    settings.contraction = fits ? Contraction::kPerspective : Contraction::kNone;
  }
  if (settings.contraction == Contraction::kPerspective && scene.has_frustum &&
      settings.finest_resolution == kAutoSetting)
    settings.finest_resolution = FinestFor(scene.pixels_along_frustum, kPixelsOfPerspectiveCell);
}

void ChooseNgpSettings(const SceneFacts& scene, TrainConfig* config) {
  if (scene.faces_one_way && !scene.has_alpha && Ngp(*config).sampler == Sampler::kGrid)
    ChooseForOneSide(scene, config);
  const int doublings = std::min(Doublings(scene, kPixelsOfStep, 1), kMaxDoublings);
  const bool grows = scene.has_alpha || HasSamplesForEachPixel(scene, kBudgetForTable);
  const int step_doublings = grows ? doublings : 0;
  if (scene.lowers_steps) {
    const double fitting = std::max(scene.n_samples / kTargetsOfBudget, kLeastTarget);
    if (fitting < config->target_samples) config->target_samples = static_cast<int>(fitting);
  }
  if (config->near < 0 && scene.near > 0) config->near = scene.near;
  NgpSettings& settings = Ngp(*config);
  if (settings.finest_resolution == kAutoSetting)
    settings.finest_resolution = FinestResolution(*config) << std::max(0, doublings - 1);
  if (settings.log2_hashmap_size == kAutoSetting)
    settings.log2_hashmap_size = Log2EntriesFor(scene, Log2HashmapSize(*config));
  if (config->grid_resolution == kAutoSetting && settings.sampler == Sampler::kGrid) {
    const bool cameras_move = settings.pose_rate > 0 || settings.focal_rate > 0;
    const bool is_fine =
        scene.may_have_hull && !cameras_move && scene.pixels_along_box > kPixelsOfGrid;
    config->grid_resolution = is_fine ? kFineGridResolution : kGridResolution;
  }
  const bool is_long =
      scene.pixels_along_box > kPixelsOfTable && HasSamplesForEachPixel(scene, kBudgetForSteps);
  const auto finer = static_cast<float>(1 << (step_doublings + (is_long ? 1 : 0)));
  const bool is_finer = finer > 1 && scene.step > 0;
  if (config->min_transmittance == kAutoSetting) {
    const bool is_large = scene.pixels_along_box > kPixelsOfLarge;
    const bool goes_on =
        scene.has_alpha && HasSamplesForEachPixel(scene, is_large ? kBudgetForFaintLightOfLarge
                                                                  : kBudgetForFaintLight);
    config->min_transmittance = goes_on ? kFaintLight : kMinTransmittance;
  }
  if (config->initial_step_scale == kAutoSetting) {
    const float scale = config->step < 0 ? (is_finer ? finer : 1) * FirstStepFactor(scene) : 1;
    config->initial_step_scale = std::max(1.0f, std::round(10 * kInitialStepScale * scale) / 10);
  }
  if (is_finer && config->step < 0) config->step = scene.step / finer;
  if (is_finer && config->cone < 0 && scene.cone > 0) config->cone = scene.cone / finer;
}

int RaysPerPixelFor(const SceneFacts& scene) {
  const bool has_four = scene.has_alpha && scene.pixels_along_box <= kPixelsOfLarge &&
                        HasSamplesForEachPixel(scene, kBudgetForRaysOfPixel);
  return has_four ? kMaxRaysPerPixel : 1;
}

// At equal time fern_8 gains 0.5 dB by 0.1; fox_quarter, drone_5, lego_200 and mic_200 gain nothing
// by 0.05.
float RouletteWeightFor(const SceneFacts& scene) {
  return scene.faces_one_way && !scene.has_alpha ? 0.1f : 0;
}

void TakeNgpFromStart(const TrainConfig& start, TrainConfig* config) {
  if (!start.method_settings.Holds<NgpSettings>()) return;
  NgpSettings& settings = Ngp(*config);
  if (config->grid_resolution == kAutoSetting && settings.sampler == Sampler::kGrid)
    config->grid_resolution = GridResolution(start);
  if (settings.log2_hashmap_size == kAutoSetting)
    settings.log2_hashmap_size = Log2HashmapSize(start);
  if (settings.finest_resolution == kAutoSetting)
    settings.finest_resolution = FinestResolution(start);
}

void TakeNgpFromTensors(const std::vector<TensorShape>& held, TrainConfig* config) {
  if (Ngp(std::as_const(*config)).log2_hashmap_size != kAutoSetting) return;
  const auto table = std::find_if(held.begin(), held.end(), [](const TensorShape& tensor) {
    return std::string_view(tensor.name).ends_with(kHashTableName);
  });
  if (table == held.end() || table->shape.size() != 3 || !std::has_single_bit(table->shape[1]))
    return;
  const int log2_entries = std::countr_zero(table->shape[1]);
  if (log2_entries >= kMinLog2Entries && log2_entries <= kMaxLog2Entries)
    Ngp(*config).log2_hashmap_size = log2_entries;
}

}  // namespace nerf
