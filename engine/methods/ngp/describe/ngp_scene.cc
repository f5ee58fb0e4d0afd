#include "engine/methods/ngp/describe/ngp_scene.h"

#include <string_view>

#include "engine/base/pixel_offset.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {

namespace {

constexpr std::string_view kOfTheGrid[] = {"alpha_threshold",
                                           "grid_decay",
                                           "grid_resolution",
                                           "grid_threshold",
                                           "grid_update_interval",
                                           "appearance_rate",
                                           "depth_weight",
                                           "error_share",
                                           "exposure_rate",
                                           "focal_rate",
                                           "frozen",
                                           "near_gradients",
                                           "pose_rate",
                                           "rays_per_pixel",
                                           "roulette_weight"};
constexpr std::string_view kOfOneRay[] = {"depth_weight", "error_share", "focal_rate", "pose_rate"};
constexpr std::string_view kOfProposals[] = {"field_samples", "proposal_samples", "spacing"};

}  // namespace

absl::Status CheckNgpScene(const SceneFacts& scene, const TrainConfig& config) {
  if (Ngp(config).learned_background != 0 && scene.has_alpha) {
    return absl::InvalidArgumentError(
        "settings.learned_background: pictures with alpha have no background to learn; leave it "
        "at 0");
  }
  if (Ngp(config).contraction == Contraction::kPerspective && !scene.has_frustum) {
    return absl::InvalidArgumentError(
        "settings.contraction: perspective is for photographs that look one way, with COLMAP's "
        "points or LLFF's bounds; these do not, or have neither");
  }
  return absl::OkStatus();
}

absl::Status CheckNgpSampler(const TrainConfig& config, const MethodDescription& method) {
  if (Ngp(config).sampler == Sampler::kGrid) {
    return CheckAtDefaults(method.settings(), kOfProposals, "sampler=grid", config,
                           method.Defaults());
  }
  TrainConfig meant = config;  // "auto" is 0 with proposals
  for (float* rate : {&Ngp(meant).exposure_rate, &Ngp(meant).roulette_weight})
    if (*rate == 0) *rate = kAutoSetting;
  return CheckAtDefaults(method.settings(), kOfTheGrid, "sampler=proposals", meant,
                         method.Defaults());
}

absl::Status CheckNgpRaysPerPixel(const TrainConfig& config, const MethodDescription& method) {
  const int n_rays = RaysPerPixel(config);
  if (n_rays == 1) return absl::OkStatus();
  if (n_rays != kMaxRaysPerPixel)
    return absl::InvalidArgumentError("settings.rays_per_pixel: a pixel shows 1 or 4 rays");
  return CheckAtDefaults(method.settings(), kOfOneRay, "rays_per_pixel=4", config,
                         method.Defaults());
}

}  // namespace nerf
