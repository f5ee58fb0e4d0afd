#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/pose_limits.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/posing/photographs/panorama.h"
#include "engine/scene/posing/pose_progress.h"

namespace nerf {

struct PoseOptions {
  std::string colmap = "colmap", ffmpeg = "ffmpeg", ffprobe = "ffprobe";  // paths or names
  ThreadPool* pool = nullptr;     // borrowed for the call; COLMAP gets as many threads
  uint64_t max_memory_bytes = 0;  // of a COLMAP process; 0: no limit
  // Below it slower methods are tried.
  double min_posed_share = kDefaultMinPosed;
  int film_frames = kDefaultFilmFrames;  // of each film
  CameraKind camera = CameraKind::kAuto;
  // Of panoramas: what lies more than so many degrees under the horizon is masked, 0 to 90. 0: no
  // mask.
  double mask_below = 0;
  absl::Duration time_limit = absl::Hours(12);  // of each process
  // For harder efforts where the matches show that the photographs are of several places, or share
  // nothing: they seldom join them.
  absl::Duration patience = absl::Seconds(60);
  const Clock* clock = nullptr;
  std::stop_token stop;
  // At least once a second, on the caller's thread.
  std::function<void(const PoseProgress&)> on_progress;
};

}  // namespace nerf
