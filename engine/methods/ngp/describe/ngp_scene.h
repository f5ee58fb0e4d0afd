#pragma once

#include "absl/status/status.h"
#include "engine/base/config/method_description.h"

namespace nerf {

// MethodDescription::CheckScene of ngp: a background is learned behind opaque pictures alone.
absl::Status CheckNgpScene(const SceneFacts& scene, const TrainConfig& config);

// MethodDescription::CheckSettings of `method`, which is ngp: what the one sampler has and the
// other does not.
absl::Status CheckNgpSampler(const TrainConfig& config, const MethodDescription& method);
// The same of rays_per_pixel: 1, or 4 unless another setting needs one ray per pixel.
absl::Status CheckNgpRaysPerPixel(const TrainConfig& config, const MethodDescription& method);
// Of MethodDescription::CheckRanks: what one process alone learns.
absl::Status CheckNgpRanks(const TrainConfig& config, DeviceSet kind,
                           const MethodDescription& method);

}  // namespace nerf
