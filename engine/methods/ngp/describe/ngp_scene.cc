#include "engine/methods/ngp/describe/ngp_scene.h"

#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {

absl::Status CheckNgpScene(const SceneFacts& scene, const TrainConfig& config) {
  if (Ngp(config).learned_background != 0 && scene.has_alpha) {
    return absl::InvalidArgumentError(
        "settings.learned_background: pictures with alpha have no background to learn; leave it "
        "at 0");
  }
  return absl::OkStatus();
}

}  // namespace nerf
