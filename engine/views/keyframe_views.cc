#include "engine/views/keyframe_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/views/path/keyframe_path.h"

namespace nerf {
namespace {

constexpr double kDefaultSeconds = 5;
constexpr double kMaxFrames = 100'000;
constexpr float kRadians = std::numbers::pi_v<float> / 180;

// Vertical field of view, and back.
float FovDegrees(const Camera& camera) {
  return 2 * std::atan2(0.5f * static_cast<float>(camera.height), camera.fl_y) / kRadians;
}
float FocalLength(const Camera& camera, float fov_degrees) {
  return 0.5f * static_cast<float>(camera.height) / std::tan(0.5f * fov_degrees * kRadians);
}

}  // namespace

absl::Status CheckFrameCount(int n_frames, const ViewList& list) {
  if (n_frames == 0 || list.are_keyframes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--frames {}: the file lists {} cameras one by one, and each is rendered; "
                  "--frames is for camera paths of keyframes",
                  n_frames, list.views.size()));
}

void ExpandKeyframes(int n_frames, double fps, ViewList* list) {
  if (!list->are_keyframes || list->views.empty()) return;
  const double seconds = list->seconds > 0 ? list->seconds : kDefaultSeconds;
  const int n = n_frames > 0
                    ? n_frames
                    : static_cast<int>(std::clamp(std::round(fps * seconds), 1.0, kMaxFrames));
  std::vector<PathCamera> keyframes;
  for (const ListedCamera& view : list->views)
    keyframes.push_back({view.camera.camera_to_world, FovDegrees(view.camera)});
  const Camera first = list->views.front().camera;
  list->views.clear();
  for (const PathCamera& on_path : ExpandKeyframes(keyframes, n, list->is_loop)) {
    Camera camera = first;
    camera.camera_to_world = on_path.camera_to_world;
    const float zoom = FocalLength(camera, on_path.fov_degrees) / first.fl_y;
    camera.fl_x *= zoom;
    camera.fl_y *= zoom;
    list->views.push_back({camera, "", ""});
  }
  list->are_keyframes = false;
}

}  // namespace nerf
