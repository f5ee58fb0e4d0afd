#include "engine/program/written_views/scene_match.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "common/counted.h"
#include "common/shell_word.h"
#include "engine/program/written_views/view_paths.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Of the longer side, which turning a picture upright does not change. 0 for lenses whose focal
// length says little of what they show.
double RelativeFocal(const Camera& camera) {
  if (camera.lens != LensModel::kPinhole && camera.lens != LensModel::kOpenCv) return 0;
  return camera.fl_x / std::max({1, camera.width, camera.height});
}

// Median over the cameras of their focal length by the closest of the training's; 0 if unknown.
double FocalRatio(const TrainState& model, std::span<const Camera> cameras) {
  std::vector<double> ratios;
  for (const Camera& camera : cameras) {
    const double focal = RelativeFocal(camera);
    double best = 0;
    for (const CaptureView& view : model.capture) {
      const double trained = RelativeFocal(view.camera);
      if (!(focal > 0) || !(trained > 0)) continue;
      const double ratio = focal / trained;
      if (best == 0 || std::abs(std::log(ratio)) < std::abs(std::log(best))) best = ratio;
    }
    if (best > 0) ratios.push_back(best);
  }
  if (ratios.empty()) return 0;
  const auto middle = ratios.begin() + static_cast<int64_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

}  // namespace

std::string OtherSceneText(const TrainState& model, const Scene& scene) {
  std::map<std::string_view, const Camera*> cameras;
  for (const auto* views : {&scene.train, &scene.test}) {
    for (const View& view : *views) cameras.emplace(view.file, &view.camera);
  }
  const float tolerance = kMaxCameraMove * model.geometry.box.Diagonal();
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

TrainedQuality ComparedQuality(const TrainState& model, std::span<const Camera> cameras,
                               double psnr, const std::string& dataset) {
  TrainedQuality quality = {.psnr = psnr,
                            .samples = static_cast<double>(model.n_trained),
                            .n_train_views = model.capture.size(),
                            .check_command = "nerf-engine check " + ShellWord(dataset),
                            .psnr_name = "PSNR",
                            .focal_ratio = FocalRatio(model, cameras),
                            .n_views = cameras.size()};
  const std::vector<CaptureCamera> capture = CaptureCamerasOf(model);
  for (const Camera& camera : cameras) quality.n_far_views += IsFarFrom(camera, capture);
  return quality;
}

}  // namespace nerf
