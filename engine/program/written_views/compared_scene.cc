#include "engine/program/written_views/compared_scene.h"

#include <algorithm>
#include <cstdio>

#include "common/status_macros.h"
#include "engine/base/config/view_limits.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/program/written_views/scene_match.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pose.h"
#include "engine/scene/read/scene_reader.h"
#include "fmt/format.h"

namespace nerf {
namespace {

void MoveToFrame(const SceneFrame& from, const SceneFrame& to, std::vector<View>* views) {
  if (from == to) return;
  for (View& view : *views) view.camera = BetweenFrames(view.camera, from, to);
}

void MovePoints(const SceneFrame& from, const SceneFrame& to, std::vector<SeenPoint>* points) {
  if (from == to) return;
  const Similarity to_own = Inverse(FromSceneFrame(from));
  Similarity shift;
  shift.translation = Difference(from.origin, to.origin);
  const Similarity move = Compose(FromSceneFrame(to), Compose(shift, to_own));
  for (SeenPoint& point : *points) {
    const Vec3d place = move.ApplyToPoint({point.position.x, point.position.y, point.position.z});
    point.position = {static_cast<float>(place[0]), static_cast<float>(place[1]),
                      static_cast<float>(place[2])};
  }
}

// The error with the data set's name, where it does not begin with it.
absl::StatusOr<Scene> Named(absl::StatusOr<Scene> scene, const std::string& dataset) {
  const std::string message(scene.status().message());
  if (scene.ok() || message.starts_with(dataset)) return scene;
  return absl::Status(scene.status().code(), fmt::format("{}: {}", dataset, message));
}

}  // namespace

absl::StatusOr<Scene> LoadComparedScene(const std::string& dataset, const SceneOptions& options,
                                        const TrainState& model, const std::string& split) {
  NERF_ASSIGN_OR_RETURN(Scene scene, Named(LoadScene(dataset, options), dataset));
  for (const std::string& warning : scene.warnings) fmt::print(stderr, "warning: {}\n", warning);
  if ((split == "train" ? scene.train : scene.test).empty())
    return absl::InvalidArgumentError(fmt::format("{} has no {} views", dataset, split));
  const SceneFrame& frame = model.geometry.frame;
  MovePoints(scene.geometry.frame, frame, &scene.held_out_points);
  MoveToFrame(scene.geometry.frame, frame, &scene.train);
  MoveToFrame(scene.geometry.frame, frame, &scene.test);
  if (const std::string other = OtherSceneText(model, scene); !other.empty()) {
    fmt::print(stderr, "warning: {} is most likely another data set than the model's: {}\n",
               dataset, other);
  }
  return scene;
}

SceneOptions ComparedOptions(const TrainConfig& trained, ThreadPool* pool) {
  SceneOptions options;
  options.follow_links = true;
  if (trained.test_every != TrainConfig().test_every) options.test_every = trained.test_every;
  options.alpha_is_mask = trained.alpha_is_mask != 0;
  options.reading = {trained.poses, trained.apply_exif != 0};
  options.with_depth = true;
  options.pool = pool;
  options.memory_limit_bytes = AvailableMemoryBytes().value_or(0);
  options.max_side = std::max(0, trained.max_side);
  options.max_test_pixels = kMaxDefaultViewPixels;
  return options;
}

}  // namespace nerf
