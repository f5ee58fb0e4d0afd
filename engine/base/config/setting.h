#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "engine/base/config/train_config.h"

namespace nerf {

// Kinds of devices, as a set.
enum DeviceSet : uint8_t { kNoDevice = 0, kOnCpu = 1, kOnCuda = 2, kOnEveryDevice = 3 };

// The kind of a device named "cpu" or "cuda:N".
DeviceSet DeviceSetOf(std::string_view device);

// Ways to train that do not honor every setting of their method, as a set.
enum WaySet : uint8_t {
  kNoWay = 0,
  kWithGrid = 1,           // ngp: samples lie in the cells of a grid
  kWithProposals = 2,      // ngp: they lie where a smaller network found density
  kWithFourRays = 4,       // ngp: a pixel shows the mean of several rays
  kWithTiles = 8,          // ngp-tiles, whose table leaves the setting out
  kWithRanks = 16,         // several processes train one model
  kWithCudaRanks = 32,     // each on a CUDA device
  kWithOneNetwork = 64,    // mlp: one network on a grid
  kWithTwoNetworks = 128,  // mlp: coarse and fine
};
constexpr WaySet operator|(WaySet a, WaySet b) { return static_cast<WaySet>(int{a} | int{b}); }

enum class SettingKind { kWhole, kPowerOfTwo, kNumber, kLoss, kText };

// One setting: its key, range and meaning, and how it is read from a config. Values pass as
// doubles, which hold ints and floats exactly; a choice is its index. Those of kText are no single
// number and pass as text.
struct Setting {
  std::string_view key;
  SettingKind kind = SettingKind::kNumber;
  double min = 0, max = 0;             // inclusive; unused for choices
  std::string_view text;               // one line for help
  DeviceSet devices = kOnEveryDevice;  // that honor it
  WaySet not_honored = kNoWay;         // by these ways to train, with any device
  bool may_be_zero = true;             // false: 0 is refused although it is in the range
  // Devices that do not honor it train without it: it changes how fast they learn, not what.
  bool is_ignored_elsewhere = false;
  bool may_be_auto = false;  // "auto", kept as kAutoSetting: chosen when a training begins
  double (*get)(const TrainConfig& config) = nullptr;
  void (*set)(double value, TrainConfig* config) = nullptr;
  // Of kText, instead of the two. Errors of set_text: InvalidArgument that says what is allowed.
  std::string (*get_text)(const TrainConfig& config) = nullptr;
  absl::Status (*set_text)(std::string_view value, TrainConfig* config) = nullptr;

  // The same setting, which may also be "auto".
  constexpr Setting OrAuto() const {
    Setting setting = *this;
    setting.may_be_auto = true;
    return setting;
  }
  // The same setting, which some ways to train do not honor.
  constexpr Setting Not(WaySet ways) const {
    Setting setting = *this;
    setting.not_honored = ways;
    return setting;
  }
  // The same setting, honored by some devices alone.
  Setting On(DeviceSet on) const {
    Setting setting = *this;
    setting.devices = on;
    setting.is_ignored_elsewhere = false;
    return setting;
  }
  // The same setting, without effect on other devices.
  Setting IgnoredElsewhere() const {
    Setting setting = *this;
    setting.is_ignored_elsewhere = true;
    return setting;
  }
};

namespace setting_internal {

template <auto member>
struct Member;
template <typename C, typename T, T C::*member>
struct Member<member> {
  using Type = T;
  static double Get(const TrainConfig& config) {
    if constexpr (std::is_same_v<C, TrainConfig>) {
      return static_cast<double>(config.*member);
    } else {
      return static_cast<double>(config.method_settings.Get<C>().*member);
    }
  }
  static void Set(double value, TrainConfig* config) {
    if constexpr (std::is_same_v<C, TrainConfig>) {
      config->*member = static_cast<T>(value);
    } else {
      config->method_settings.Mutable<C>().*member = static_cast<T>(value);
    }
  }
};

}  // namespace setting_internal

// The setting stored in `member` of TrainConfig or of a method's struct: an int, a float or a Loss.
template <auto member>
constexpr Setting SettingOf(std::string_view key, double min, double max, std::string_view text) {
  using Access = setting_internal::Member<member>;
  Setting setting;
  setting.key = key;
  setting.kind = std::is_same_v<typename Access::Type, Loss>  ? SettingKind::kLoss
                 : std::is_same_v<typename Access::Type, int> ? SettingKind::kWhole
                                                              : SettingKind::kNumber;
  setting.min = min;
  setting.max = max;
  setting.text = text;
  setting.get = &Access::Get;
  setting.set = &Access::Set;
  return setting;
}

// A setting that is no single number.
constexpr Setting TextSetting(std::string_view key, std::string_view text,
                              std::string (*get_text)(const TrainConfig&),
                              absl::Status (*set_text)(std::string_view, TrainConfig*)) {
  Setting setting;
  setting.key = key;
  setting.kind = SettingKind::kText;
  setting.text = text;
  setting.get_text = get_text;
  setting.set_text = set_text;
  return setting;
}

// Sets one setting from text; whole numbers may be written as 1e6 or 1M, too. Errors:
// InvalidArgument naming the key: not a number, out of range.
absl::Status ParseSetting(const Setting& setting, std::string_view value, TrainConfig* config);
// The value as text that ParseSetting reads back to the same bits.
std::string SettingText(const Setting& setting, const TrainConfig& config);

// InvalidArgument: the setting is not at its default although `who` does not honor it.
absl::Status NotHonored(const Setting& setting, std::string_view who, const TrainConfig& defaults);
// Whether those of `settings` that a way to train, called `who`, does not honor are at their
// defaults. Errors: NotHonored.
absl::Status CheckAtDefaults(std::span<const Setting> settings, WaySet way, std::string_view who,
                             const TrainConfig& config, const TrainConfig& defaults);

// The settings of TrainConfig itself, sorted by key. A method lists those that it honors.
std::span<const Setting> SharedSettings();
// The one with this key, honored by `devices`. Requires: it exists.
Setting SharedSetting(std::string_view key, DeviceSet devices = kOnEveryDevice);

}  // namespace nerf
