#include "engine/tool/scene_match.h"

#include <map>
#include <string_view>

#include "common/counted.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Of the box's diagonal. Poses that were refined in training move less.
constexpr float kElsewhere = 0.05f;

}  // namespace

std::string OtherSceneText(const TrainState& model, const Scene& scene) {
  std::map<std::string_view, const Camera*> cameras;
  for (const auto* views : {&scene.train, &scene.test}) {
    for (const View& view : *views) cameras.emplace(view.file, &view.camera);
  }
  const float tolerance = kElsewhere * model.geometry.box.Diagonal();
  size_t n_found = 0, n_elsewhere = 0;
  for (const CaptureView& view : model.capture) {
    const auto found = cameras.find(view.file);
    if (found == cameras.end()) continue;
    const Vec3 moved =
        found->second->camera_to_world.Column(3) - view.camera.camera_to_world.Column(3);
    ++n_found;
    n_elsewhere += Norm(moved) > tolerance ? 1 : 0;
  }
  const size_t n = model.capture.size();
  if (2 * n_found < n) {
    return fmt::format("it has {} of the {} that the model was trained on", n_found,
                       Counted(n, "picture"));
  }
  if (2 * n_elsewhere > n_found) {
    return fmt::format("{} of {} have other cameras than in the training", n_elsewhere,
                       Counted(n_found, "picture"));
  }
  return "";
}

}  // namespace nerf
