#include "engine/methods/ngp/describe/ngp_scene.h"

#include "engine/base/pixel_offset.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {

namespace {

// Where exposure_rate and roulette_weight are 0 and might be "auto", which is 0 here.
TrainConfig WithoutChoices(TrainConfig config) {
  for (float* rate : {&Ngp(config).exposure_rate, &Ngp(config).roulette_weight})
    if (*rate == 0) *rate = kAutoSetting;
  return config;
}

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
    return CheckAtDefaults(method.settings(), kWithGrid, "sampler=grid", config, method.Defaults());
  }
  return CheckAtDefaults(method.settings(), kWithProposals, "sampler=proposals",
                         WithoutChoices(config), method.Defaults());
}

absl::Status CheckNgpRaysPerPixel(const TrainConfig& config, const MethodDescription& method) {
  const int n_rays = RaysPerPixel(config);
  if (n_rays == 1) return absl::OkStatus();
  if (n_rays != kMaxRaysPerPixel)
    return absl::InvalidArgumentError("settings.rays_per_pixel: a pixel shows 1 or 4 rays");
  return CheckAtDefaults(method.settings(), kWithFourRays, "rays_per_pixel=4", config,
                         method.Defaults());
}

absl::Status CheckNgpRanks(const TrainConfig& config, DeviceSet kind,
                           const MethodDescription& method) {
  const WaySet ways = (kind & kOnCuda) != 0 ? kWithRanks | kWithCudaRanks : kWithRanks;
  TrainConfig meant = config, defaults = method.Defaults();
  for (TrainConfig* each : {&meant, &defaults}) Ngp(*each).exposure_rate = ExposureRate(*each);
  return CheckAtDefaults(method.settings(), ways, "a training of several ranks", meant, defaults);
}

}  // namespace nerf
