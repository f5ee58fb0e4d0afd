#include "engine/base/config/grid_method_settings.h"

namespace nerf {

std::vector<Setting> GridMethodSettings(DeviceSet devices) {
  std::vector<Setting> settings;
  for (const char* key : {"alpha_threshold",
                          "apply_exif",
                          "batch_growth",
                          "beta1",
                          "beta2",
                          "cone",
                          "epsilon",
                          "evaluate",
                          "grid_decay",
                          "grid_resolution",
                          "grid_threshold",
                          "grid_update_interval",
                          "huber_delta",
                          "initial_rays",
                          "initial_step_scale",
                          "learning_rate",
                          "loss",
                          "max_rays",
                          "max_side",
                          "min_transmittance",
                          "near",
                          "poses",
                          "step",
                          "target_samples",
                          "warmup_steps"}) {
    settings.push_back(SharedSetting(key, devices));
  }
  return settings;
}

}  // namespace nerf
