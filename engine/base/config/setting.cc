#include "engine/base/config/setting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/amount.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/base/config/placement_text.h"
#include "engine/base/pixel_offset.h"
#include "fmt/format.h"

namespace nerf {
namespace {

using C = TrainConfig;

constexpr std::string_view kAutoText = "auto";

constexpr Setting Nonzero(Setting setting) {
  setting.may_be_zero = false;
  return setting;
}

constexpr Setting PowerOfTwo(Setting setting) {
  setting.kind = SettingKind::kPowerOfTwo;
  return setting;
}

constexpr std::array kSharedSettings = {
    SettingOf<&C::alpha_is_mask>(
        "alpha_is_mask", 0, 1,
        "1 takes the pictures' alpha as a mask: how much a pixel counts; 0: "
        "as its opacity"),
    SettingOf<&C::alpha_threshold>("alpha_threshold", 0, 0.99,
                                   "samples with a smaller alpha are skipped")
        .Not(kWithProposals | kWithTwoNetworks),
    SettingOf<&C::apply_exif>("apply_exif", 0, 1,
                              "1 turns photographs upright by their EXIF orientation; 0: poses are "
                              "for the pixels as they lie"),
    SettingOf<&C::batch_growth>(
        "batch_growth", 1, 64,
        "factor by which target_samples grows, from 30% to 80% of the budget; auto: 4, or 16 on a "
        "large GPU")
        .OrAuto(),
    SettingOf<&C::beta1>("beta1", 0, 0.9999, "Adam: decay of the first moment"),
    SettingOf<&C::beta2>("beta2", 0, 0.99999, "Adam: decay of the second moment"),
    TextSetting("box",
                "the level-0 box: x,y,z,side, its center and side in the data set's own frame; "
                "auto: chosen by flavor, points and cameras",
                &BoxText, &ParseBox),
    TextSetting(
        "boxes",
        "nested boxes, 1 to 8, each twice as large as the one inside; auto: the scene's own",
        &BoxesText, &ParseBoxes),
    SettingOf<&C::cone>(
        "cone", -1, 0.1,
        "a step is at least this share of the distance from the camera; negative: the scene's own")
        .Not(kWithTwoNetworks),
    SettingOf<&C::cuda_deterministic>("cuda_deterministic", 0, 1,
                                      "1 sums gradients so that one seed gives the same bytes"),
    SettingOf<&C::cuda_fp32>("cuda_fp32", 0, 1,
                             "1 trains in fp32 throughout; 0: half precision with fp32 masters"),
    SettingOf<&C::distortion>(
        "distortion", 0, 10,
        "weight in the loss of the spread of a ray's weights; falls to 0 at half of "
        "the budget"),
    SettingOf<&C::ema_decay>(
        "ema_decay", 0, 0.9999,
        "decay per step of the average of the weights that evaluation uses; 0: no average"),
    SettingOf<&C::epsilon>("epsilon", 1e-30, 1, "Adam: added to the root of the second moment"),
    SettingOf<&C::evaluate>("evaluate", 0, 1, "1 evaluates the test views at the end"),
    Nonzero(SettingOf<&C::far>("far", -1, 1e6,
                               "rays end so far from the camera, in training units as near; "
                               "negative: where they leave the boxes")),
    SettingOf<&C::grid_decay>("grid_decay", 0.5, 1, "occupancy grid: decay of a cell at an update")
        .Not(kWithProposals | kWithTwoNetworks),
    PowerOfTwo(SettingOf<&C::grid_resolution>(
                   "grid_resolution", 32, 256,
                   "occupancy grid: cells along a side, a power of two; auto: 128, or 256 in ngp "
                   "for pictures with alpha")
                   .Not(kWithProposals | kWithTwoNetworks))
        .OrAuto(),
    SettingOf<&C::grid_threshold>(
        "grid_threshold", 0, 10,
        "occupancy grid: cells above this density * step, or above the mean, are occupied")
        .Not(kWithProposals | kWithTwoNetworks),
    SettingOf<&C::grid_update_interval>("grid_update_interval", 1, 1024,
                                        "occupancy grid: steps between updates")
        .Not(kWithProposals | kWithTwoNetworks),
    SettingOf<&C::huber_delta>("huber_delta", 1e-4, 10, "Huber loss: where it turns linear"),
    SettingOf<&C::initial_rays>("initial_rays", 16, 65536, "rays of the first step"),
    SettingOf<&C::initial_step_scale>(
        "initial_step_scale", 1, 64,
        "factor of the marching step at first; falls to 1 at half of the budget; auto: 3; in "
        "ngp by the step that is chosen and the pictures' size")
        .Not(kWithTwoNetworks)
        .OrAuto(),
    SettingOf<&C::learning_rate>("learning_rate", 1e-7, 1, "Adam: peak learning rate"),
    SettingOf<&C::loss>("loss", 0, 0, "huber or mse"),
    SettingOf<&C::loss_scale>("loss_scale", 1, 65536,
                              "loss is multiplied by this before the backward pass"),
    SettingOf<&C::max_rays>("max_rays", 16, 1048576,
                            "most rays of a step; auto: 65536, or 262144 on a large GPU")
        .OrAuto(),
    SettingOf<&C::max_side>("max_side", -1, 16384,
                            "pictures are reduced to this longer side in pixels; 0: as they are; "
                            "negative: by the budget, never below 1 megapixel"),
    SettingOf<&C::min_transmittance>(
        "min_transmittance", 0, 0.5,
        "a ray ends at the sample after which less transmittance is left; auto: 0.03, or 0.001 "
        "in ngp for pictures with alpha and many samples for each pixel")
        .OrAuto(),
    SettingOf<&C::near>(
        "near", -1, 1e6,
        "distance from the camera at which rays start; negative: the scene's own, "
        "in ngp for panoramas without points half of their spacing. Training "
        "units: the level-0 box is 3 of them wide (Blender), 1 (instant-ngp) or 2 (others)"),
    TextSetting("poses",
                "what a transforms file's matrices are: opengl or opencv (camera to world, axes of "
                "that program), w2c (world to camera)",
                &PosesText, &ParsePoses),
    PowerOfTwo(SettingOf<&C::rays_per_pixel>("rays_per_pixel", 1, kMaxRaysPerPixel,
                                             "rays per pixel, 1 or 4, whose mean color it shows in "
                                             "views and, from half of the budget "
                                             "on, in training; auto: 4 in ngp for pictures with "
                                             "alpha and many samples for each pixel")
                   .Not(kWithProposals | kWithTiles))
        .OrAuto(),
    Nonzero(SettingOf<&C::step>(
                "step", -1, 1e6,
                "marching step, in training units as near; negative: the scene's own, 1/512 of "
                "the level-0 box's diagonal, or less by the pixels' footprint")
                .Not(kWithTwoNetworks)),
    SettingOf<&C::target_samples>(
        "target_samples", 256, 4194304,
        "trained samples of a step at first; the number of rays is adjusted to it; auto: 8192, or "
        "16384 on a large GPU")
        .OrAuto(),
    TextSetting("up",
                "the data set's axis that points up: x, -x, y, -y, z, -z; auto: the mean of the "
                "cameras' up. Of nerfstudio and COLMAP scenes",
                &UpText, &ParseUp),
    SettingOf<&C::warmup_steps>("warmup_steps", 0, 100000,
                                "steps over which the learning rate rises from 1%"),
};

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

// A whole number as people write large ones: 1000000, 1e6, 1M.
bool ParseWhole(std::string_view text, double* number) {
  const std::optional<double> amount = ParseAmount(text);
  *number = amount.value_or(0);
  return amount.has_value() && *number == std::floor(*number);
}

}  // namespace

DeviceSet DeviceSetOf(std::string_view device) { return device == "cpu" ? kOnCpu : kOnCuda; }

absl::Status ParseSetting(const Setting& setting, std::string_view value, TrainConfig* config) {
  if (setting.kind == SettingKind::kText) {
    const absl::Status set = setting.set_text(value, config);
    if (set.ok()) return set;
    return absl::InvalidArgumentError(fmt::format("settings.{}: '{}' is not {}", setting.key,
                                                  value.substr(0, 64), std::string(set.message())));
  }
  if (setting.may_be_auto && value == kAutoText) {
    setting.set(kAutoSetting, config);
    return absl::OkStatus();
  }
  if (setting.kind == SettingKind::kLoss) {
    NERF_ASSIGN_OR_RETURN(const Loss loss, ParseLoss(value));
    setting.set(static_cast<double>(loss), config);
    return absl::OkStatus();
  }
  const bool whole = setting.kind != SettingKind::kNumber;
  double number = 0;
  const bool parsed = whole ? ParseWhole(value, &number) : absl::SimpleAtod(Abseil(value), &number);
  if (!parsed || !std::isfinite(number)) {
    return absl::InvalidArgumentError(fmt::format("settings.{}: '{}' is not a {}", setting.key,
                                                  value.substr(0, 64),
                                                  whole ? "whole number" : "number"));
  }
  if (number < setting.min || number > setting.max) {
    return absl::InvalidArgumentError(fmt::format("settings.{}: {} is not between {} and {}",
                                                  setting.key, value.substr(0, 64), setting.min,
                                                  setting.max));
  }
  const auto integer = static_cast<int64_t>(number);
  if (setting.kind == SettingKind::kPowerOfTwo && (integer & (integer - 1)) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("settings.{}: {} is not a power of two", setting.key, integer));
  }
  if (!setting.may_be_zero && static_cast<float>(number) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("settings.{}: must be above 0, or negative for the scene's own; it is {}",
                    setting.key, value.substr(0, 64)));
  }
  setting.set(number, config);
  return absl::OkStatus();
}

std::string SettingText(const Setting& setting, const TrainConfig& config) {
  if (setting.kind == SettingKind::kText) return setting.get_text(config);
  const double value = setting.get(config);
  if (setting.may_be_auto && value == kAutoSetting) return std::string(kAutoText);
  if (setting.kind == SettingKind::kLoss)
    return std::string(LossName(static_cast<Loss>(static_cast<int>(value))));
  // The shortest text that reads back to the same float.
  if (setting.kind == SettingKind::kNumber) return fmt::format("{}", static_cast<float>(value));
  return fmt::format("{}", static_cast<int>(value));
}

absl::Status NotHonored(const Setting& setting, std::string_view who, const TrainConfig& defaults) {
  return absl::InvalidArgumentError(fmt::format("settings.{}: {} does not honor it; leave it at {}",
                                                setting.key, who, SettingText(setting, defaults)));
}

absl::Status CheckAtDefaults(std::span<const Setting> settings, WaySet way, std::string_view who,
                             const TrainConfig& config, const TrainConfig& defaults) {
  TrainConfig meant = config, meant_by_default = defaults;  // files name what "auto" is
  meant.grid_resolution = GridResolution(config);
  meant_by_default.grid_resolution = GridResolution(defaults);
  meant.rays_per_pixel = RaysPerPixel(config);
  meant_by_default.rays_per_pixel = RaysPerPixel(defaults);
  for (const Setting& setting : settings) {
    if ((setting.not_honored & way) != 0 &&
        SettingText(setting, meant) != SettingText(setting, meant_by_default)) {
      return NotHonored(setting, who, defaults);
    }
  }
  return absl::OkStatus();
}

std::span<const Setting> SharedSettings() { return kSharedSettings; }

Setting SharedSetting(std::string_view key, DeviceSet devices) {
  const auto found = std::find_if(kSharedSettings.begin(), kSharedSettings.end(),
                                  [&](const Setting& setting) { return setting.key == key; });
  NERF_CHECK(found != kSharedSettings.end());
  return found->On(devices);
}

}  // namespace nerf
