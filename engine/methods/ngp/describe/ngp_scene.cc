#include "engine/methods/ngp/describe/ngp_scene.h"

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "fmt/format.h"

namespace nerf {

namespace {

// What only the march through the grid has.
absl::Status CheckSampler(const TrainConfig& config) {
  const NgpSettings& settings = Ngp(config);
  if (settings.sampler == Sampler::kGrid) return absl::OkStatus();
  const char* const setting = settings.exposure_rate > 0     ? "exposure_rate"
                              : settings.appearance_rate > 0 ? "appearance_rate"
                              : settings.pose_rate > 0       ? "pose_rate"
                              : settings.focal_rate > 0      ? "focal_rate"
                              : settings.depth_weight > 0    ? "depth_weight"
                              : settings.error_share > 0     ? "error_share"
                              : settings.near_gradients > 0  ? "near_gradients"
                                                             : nullptr;
  if (setting != nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("settings.{}: sampler=proposals does not honor it; leave it at 0", setting));
  }
  if (settings.frozen == Frozen::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "settings.frozen: sampler=proposals does not honor it; leave it at none");
}

}  // namespace

absl::Status CheckNgpScene(const SceneFacts& scene, const TrainConfig& config) {
  if (Ngp(config).learned_background != 0 && scene.has_alpha) {
    return absl::InvalidArgumentError(
        "settings.learned_background: pictures with alpha have no background to learn; leave it "
        "at 0");
  }
  return CheckSampler(config);
}

}  // namespace nerf
