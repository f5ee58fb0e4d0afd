#include "engine/methods/mlp/describe/mlp_settings.h"

#include <algorithm>
#include <vector>

#include "engine/base/config/grid_method_settings.h"

namespace nerf {

std::span<const Setting> MlpSettingTable() {
  using S = MlpSettings;
  static const auto& table = *[] {
    auto* settings = new std::vector<Setting>{
        SettingOf<&S::autocast>("autocast", 0, 1,
                                "1: LibTorch's autocast: layers multiply in bf16; 0: in fp32")
            .On(kNoDevice),
        SettingOf<&S::checkpointing>("checkpointing", 0, 1,
                                     "1: evaluate activations again in the backward pass instead "
                                     "of keeping them: less memory, more time")
            .On(kNoDevice),
        SettingOf<&S::coarse_samples>("coarse_samples", 0, 256,
                                      "samples of a ray in the coarse of two networks; 0: one "
                                      "network on an occupancy grid"),
        SettingOf<&S::depth>("depth", 1, 8, "hidden layers of the trunk"),
        SettingOf<&S::depth_planes>("depth_planes", 0, 1,
                                    "1: near and far are planes before the camera, as in "
                                    "nerf-pytorch; 0: distances along the ray")
            .Not(kWithOneNetwork),
        SettingOf<&S::far>("far", -1, 1e6,
                           "where rays of two networks end, training units; -1: where they leave "
                           "the box")
            .Not(kWithOneNetwork),
        SettingOf<&S::feature_relu>("feature_relu", 0, 1,
                                    "1: ReLU behind the layer between trunk and color"),
        SettingOf<&S::fine_samples>("fine_samples", 1, 512,
                                    "samples of a ray that the coarse of two networks places")
            .Not(kWithOneNetwork),
        SettingOf<&S::skip>("skip", 0, 7,
                            "hidden layer, counted from 0, that also reads the position; 0: none"),
        SettingOf<&S::width>("width", 32, 256, "width of the hidden layers, a power of two"),
    };
    for (Setting& setting : *settings) {
      if (setting.key == "width") setting.kind = SettingKind::kPowerOfTwo;
    }
    for (const Setting& setting : GridMethodSettings()) settings->push_back(setting);
    settings->push_back(SharedSetting("ema_decay"));
    for (const char* key : {"cuda_deterministic", "cuda_fp32"})
      settings->push_back(SharedSetting(key, kOnCuda));
    std::sort(settings->begin(), settings->end(),
              [](const Setting& a, const Setting& b) { return a.key < b.key; });
    return settings;
  }();
  return table;
}

}  // namespace nerf
