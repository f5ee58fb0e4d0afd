#include "engine/methods/voxels/describe/voxels_settings.h"

#include <algorithm>
#include <vector>

#include "engine/base/config/grid_method_settings.h"

namespace nerf {
namespace {

std::vector<Setting> OwnSettings() {
  using S = VoxelsSettings;
  std::vector<Setting> settings = {
      SettingOf<&S::finest_resolution>("finest_resolution", 32, 512,
                                       "voxels along the outermost box at the end"),
      SettingOf<&S::first_resolution>("first_resolution", 32, 256,
                                      "voxels along the outermost box at first"),
      SettingOf<&S::initial_density>(
          "initial_density", 1e-3, 1e3,
          "optical depth of an untrained field along a side of the level-0 box"),
      SettingOf<&S::subdivide_share>("subdivide_share", 0, 1,
                                     "share of the budget that is spent when voxels have their "
                                     "final size"),
      SettingOf<&S::tv_color>("tv_color", 0, 1,
                              "weight in the loss of the variation of colors between neighbors"),
      SettingOf<&S::tv_density>(
          "tv_density", 0, 1, "weight in the loss of the variation of densities between neighbors"),
  };
  settings[0].kind = settings[1].kind = SettingKind::kPowerOfTwo;
  return settings;
}

}  // namespace

std::span<const Setting> VoxelsSettingTable() {
  static const auto& table = *[] {
    auto* settings = new std::vector<Setting>(OwnSettings());
    for (const Setting& setting : GridMethodSettings()) settings->push_back(setting);
    settings->push_back(SharedSetting("distortion"));
    settings->push_back(SharedSetting("cuda_deterministic", kOnCuda));
    for (Setting& setting : *settings) {
      // Moments are bf16, which rounds a slower decay away (kernels::kMaxBf16Decay).
      if (setting.key == "beta1" || setting.key == "beta2") setting.max = 0.995;
    }
    std::sort(settings->begin(), settings->end(),
              [](const Setting& a, const Setting& b) { return a.key < b.key; });
    return settings;
  }();
  return table;
}

}  // namespace nerf
