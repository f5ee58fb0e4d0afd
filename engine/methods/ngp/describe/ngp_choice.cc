#include "engine/methods/ngp/describe/ngp_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/base/config/start_shape.h"
#include "engine/base/config/step_size.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/base/pixel_offset.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "fmt/format.h"

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
constexpr float kRouletteWeightOfOneSide = 0.1f;

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

// What the choices and the rows of NgpChoiceRules both ask.
bool IsOfOneSide(const SceneFacts& scene) { return scene.faces_one_way && !scene.has_alpha; }

bool FitsPerspective(const SceneFacts& scene) { return scene.has_frustum && !scene.has_alpha; }

bool HasFineGrid(const SceneFacts& scene) {
  return scene.may_have_hull && scene.pixels_along_box > kPixelsOfGrid;
}

bool HasLongBudget(const SceneFacts& scene) {
  return scene.pixels_along_box > kPixelsOfTable && HasSamplesForEachPixel(scene, kBudgetForSteps);
}

bool GoesOnInFaintLight(const SceneFacts& scene) {
  const bool is_large = scene.pixels_along_box > kPixelsOfLarge;
  return scene.has_alpha && HasSamplesForEachPixel(scene, is_large ? kBudgetForFaintLightOfLarge
                                                                   : kBudgetForFaintLight);
}

bool HasFourRays(const SceneFacts& scene) {
  return scene.has_alpha && scene.pixels_along_box <= kPixelsOfLarge &&
         HasSamplesForEachPixel(scene, kBudgetForRaysOfPixel);
}

int PixelDoublings(const SceneFacts& scene) {
  return std::min(Doublings(scene, kPixelsOfStep, 1), kMaxDoublings);
}

int StepDoublings(const SceneFacts& scene) {
  const bool grows = scene.has_alpha || HasSamplesForEachPixel(scene, kBudgetForTable);
  return grows ? PixelDoublings(scene) : 0;
}

double TargetOfBudget(const SceneFacts& scene) {
  return std::max(scene.n_samples / kTargetsOfBudget, kLeastTarget);
}

// Whether a step would have more than the share of the budget that suits it.
bool LowersSteps(const SceneFacts& scene, int target_samples) {
  return scene.lowers_steps && TargetOfBudget(scene) < target_samples;
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
    const bool fits = FitsPerspective(scene) && settings.sampler == Sampler::kGrid &&
                      settings.learned_background == 0;
    settings.contraction = fits ? Contraction::kPerspective : Contraction::kNone;
  }
  if (settings.contraction == Contraction::kPerspective && scene.has_frustum &&
      settings.finest_resolution == kAutoSetting)
    settings.finest_resolution = FinestFor(scene.pixels_along_frustum, kPixelsOfPerspectiveCell);
}

void ChooseNgpSettings(const SceneFacts& scene, TrainConfig* config) {
  if (IsOfOneSide(scene) && Ngp(*config).sampler == Sampler::kGrid) ChooseForOneSide(scene, config);
  if (LowersSteps(scene, config->target_samples))
    config->target_samples = static_cast<int>(TargetOfBudget(scene));
  if (config->near < 0 && scene.near > 0) config->near = scene.near;
  NgpSettings& settings = Ngp(*config);
  if (settings.finest_resolution == kAutoSetting)
    settings.finest_resolution = FinestResolution(*config)
                                 << std::max(0, PixelDoublings(scene) - 1);
  if (settings.log2_hashmap_size == kAutoSetting)
    settings.log2_hashmap_size = Log2EntriesFor(scene, Log2HashmapSize(*config));
  if (config->grid_resolution == kAutoSetting && settings.sampler == Sampler::kGrid) {
    const bool cameras_move = settings.pose_rate > 0 || settings.focal_rate > 0;
    config->grid_resolution =
        HasFineGrid(scene) && !cameras_move ? kFineGridResolution : kGridResolution;
  }
  const int halvings = StepDoublings(scene) + (HasLongBudget(scene) ? 1 : 0);
  const auto finer = static_cast<float>(1 << halvings);
  const bool is_finer = finer > 1 && scene.step > 0;
  if (config->min_transmittance == kAutoSetting)
    config->min_transmittance = GoesOnInFaintLight(scene) ? kFaintLight : kMinTransmittance;
  if (config->initial_step_scale == kAutoSetting) {
    const float scale = config->step < 0 ? (is_finer ? finer : 1) * FirstStepFactor(scene) : 1;
    config->initial_step_scale = std::max(1.0f, std::round(10 * kInitialStepScale * scale) / 10);
  }
  if (is_finer && config->step < 0) config->step = scene.step / finer;
  if (is_finer && config->cone < 0 && scene.cone > 0) config->cone = scene.cone / finer;
}

int RaysPerPixelFor(const SceneFacts& scene) { return HasFourRays(scene) ? kMaxRaysPerPixel : 1; }

float RouletteWeightFor(const SceneFacts& scene) {
  return IsOfOneSide(scene) ? kRouletteWeightOfOneSide : 0;
}

std::vector<ChoiceRule> NgpChoiceRules() {
  using F = const SceneFacts&;
  using fmt::format;
  const auto cells = [](double pixels) {
    return format("cells of {} px, {} to {}", pixels, kLeastFinestOfOneSide, kMostFinestOfOneSide);
  };
  // From where on Doublings is so many.
  const auto from = [](double pixels, double doublings) {
    return format("{:.0f}", std::ceil(pixels * std::exp2(doublings)));
  };
  const std::string twice = format("{} x own", kLongerSteps);
  return {
      {format("new training whose budget in samples is below {} steps", kTargetsOfBudget),
       {{"target_samples", format("budget / {}, at least {}", kTargetsOfBudget, kLeastTarget)}},
       "more steps: of 4 M samples photographs gain 3 dB by it, an object 2",
       [](F scene) { return LowersSteps(scene, StepSizeFor(scene.device).target_samples); }},
      {"photographs that look one way, whose nearest depth is known",
       {{"contraction", "perspective"}, {"finest_resolution", cells(kPixelsOfPerspectiveCell)}},
       "fern_4 gains 0.5 dB at 40 M samples, fern_8 1.0 at 100 M, drone_5 0.7 at 20 M",
       FitsPerspective},
      {"photographs of one side, too wide for perspective",
       {{"finest_resolution", cells(kPixelsOfFinestCell)}},
       "cameras close together tell depth less well",
       [](F scene) { return IsOfOneSide(scene) && !FitsPerspective(scene); }},
      {"photographs of one side",
       {{"step", twice},
        {"cone", twice},
        {"initial_step_scale", format("{}", kInitialScaleOfOneSide)}},
       "a step has more rays: at 40 M samples fern_4 gains 0.8 dB, fern_8 1.0; cameras around a "
       "place would lose 8",
       IsOfOneSide},
      {"photographs of one side",
       {{"roulette_weight", format("{}", kRouletteWeightOfOneSide)}},
       "fern_8 gains 0.5 dB in equal time; fox, drone, lego and mic gain nothing by 0.05",
       IsOfOneSide},
      {"pictures of one side",
       {{"near", "0.6 of the nearest depth"}},
       "no fog in front of the cameras",
       [](F scene) { return scene.near > 0 && scene.faces_one_way; }},
      {"panoramas without points of the scene",
       {{"near", "half of their spacing"}},
       "no fog in front of the cameras: a drawn room gains 2.7 dB",
       [](F scene) { return scene.near > 0 && !scene.faces_one_way; }},
      {format("P from {} and {} S; objects with less S: P from {}", from(kPixelsOfTable, 0.25),
              kBudgetForTable, from(kPixelsOfTable, 0.75)),
       {{"log2_hashmap_size", format("17 + 2 log2(P / {}), at most {}; with less S 1 less",
                                     kPixelsOfTable, kMostLog2Entries)}},
       "entries grow with P squared; 19 takes 1.6 times the time of 17",
       [](F scene) {
         const int of_small = Log2HashmapSize(TrainConfig());
         return Log2EntriesFor(scene, of_small) > of_small;
       }},
      {format("P from {} and {} S, or an object; not of one side", from(kPixelsOfStep, 0.5),
              kBudgetForTable),
       {{"step", format("1/2 of own; from P {} on 1/4", from(kPixelsOfStep, 1.5))},
        {"cone", "as step"},
        {"initial_step_scale", "as much larger"}},
       "steps of about 1.4 px",
       [](F scene) { return !IsOfOneSide(scene) && StepDoublings(scene) > 0; }},
      {format("P above {} and {} S; not of one side", kPixelsOfTable, kBudgetForSteps),
       {{"step", "1/2 of that"}, {"cone", "as step"}, {"initial_step_scale", "as much larger"}},
       "steps of about 0.7 px, which a long budget pays for",
       [](F scene) { return !IsOfOneSide(scene) && HasLongBudget(scene); }},
      {format("objects with P above {}", kPixelsOfStep),
       {{"initial_step_scale", format("{} / P of that", kPixelsOfStep)}},
       "first steps of at most 4.2 px were the best: 0.1 to 0.4 dB",
       [](F scene) { return FirstStepFactor(scene) < 1; }},
      {format("P from {}; neither of one side nor in perspective", from(kPixelsOfStep, 1.5)),
       {{"finest_resolution", "doubles with P"}},
       "1.2 cells a pixel",
       [](F scene) {
         return !IsOfOneSide(scene) && !FitsPerspective(scene) && PixelDoublings(scene) > 1;
       }},
      {format("objects with P above {}, pinholes, one box, one time", kPixelsOfGrid),
       {{"grid_resolution", format("{}", kFineGridResolution)}},
       "the visual hull leaves most cells empty: lego_200 gains 0.2 dB, mic_800 0.4; photographs "
       "lose 0.3",
       HasFineGrid},
      {format("objects with {} S, or with P above {} and {} S", kBudgetForFaintLight,
              kPixelsOfLarge, kBudgetForFaintLightOfLarge),
       {{"min_transmittance", format("{}", kFaintLight)}},
       "mic_800 gains 1.2 dB at 14 S, lego_400 loses 0.2 at 10; photographs get fog",
       GoesOnInFaintLight},
      {format("objects with P to {} and {} S", kPixelsOfLarge, kBudgetForRaysOfPixel),
       {{"rays_per_pixel", format("{}", kMaxRaysPerPixel)}},
       "lego_200 gains 0.8 dB at 10 S, lego_400 0.6; mic_800 loses 0.2, photographs 0.6",
       HasFourRays},
      {"neighboring pictures differ in exposure or tint",
       {{"exposure_rate", format("{}", kChosenExposureRate)}},
       "lego_200, fox_quarter and fern_8 with gains and tints gain 6 to 8 dB; with one exposure "
       "fox loses 1.2",
       [](F scene) { return scene.exposures_differ; }},
  };
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
