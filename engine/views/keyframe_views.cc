#include "engine/views/keyframe_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/path/spline.h"

namespace nerf {
namespace {

constexpr double kDefaultSeconds = 5;
constexpr double kMaxFrames = 100'000;

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
  std::vector<Mat34> keyframes;
  for (const ListedCamera& view : list->views) keyframes.push_back(view.camera.camera_to_world);
  const Camera lens = list->views.front().camera;
  list->views.clear();
  for (const Mat34& pose : SplineThrough(keyframes, n, list->is_loop)) {
    list->views.push_back({lens, "", ""});
    list->views.back().camera.camera_to_world = pose;
  }
  list->are_keyframes = false;
}

}  // namespace nerf
