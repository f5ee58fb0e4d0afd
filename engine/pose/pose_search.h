#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "engine/base/parallel_for.h"
#include "engine/pose/pose_report.h"

namespace nerf {

// What is being done, for people; called at least once a second.
struct PoseProgress {
  std::string doing;     // "matching features"
  int done = 0, of = 0;  // of 0: not known
};

struct PoseOptions {
  std::string colmap = "colmap", ffmpeg = "ffmpeg", ffprobe = "ffprobe";  // paths or names
  ThreadPool* pool = nullptr;     // borrowed for the call; COLMAP takes as many threads
  uint64_t max_memory_bytes = 0;  // of a COLMAP process; 0: no limit
  double min_posed_share = 0.9;   // of the usable photographs; below it harder ways are tried
  int film_frames = 120;          // taken out of each film
  absl::Duration time_limit = absl::Hours(12);  // of each process
  const Clock* clock = nullptr;
  std::stop_token stop;
  std::function<void(const PoseProgress&)> on_progress;  // on the caller's thread
};

// Finds where photographs were taken. `source` is a folder of photographs and films, or one film;
// `out`, a folder that does not exist or is empty, receives
//   images/                           upright copies, without doubles
//   sparse/0/                         COLMAP's model: cameras, images, points3D
//   pose.json, pose.txt, pose.png     the report, and the scene from above
// and exists whole or not at all. Fewer than min_posed_share of the usable photographs posed is no
// error: the report says so, and where none is posed there is no model.
//
// Two matchings: few features of all pairs find those that overlap, all features match only those.
// Where too few photographs are posed, all pairs and looser thresholds are tried, then more
// features.
//
// Errors: NotFound, InvalidArgument of the source; Unimplemented FEATURE_NOT_BUILT without COLMAP
// or ffmpeg; FailedPrecondition where `out` holds something; Cancelled, DeadlineExceeded,
// ResourceExhausted (memory, disk), Aborted where COLMAP failed.
absl::StatusOr<PoseReport> SearchPoses(const std::string& source, const std::string& out,
                                       const PoseOptions& options);

// Pairs of photographs to match with all features: of each photograph those that share the most
// with it, at least `per_photo` where there are so many. 0: all pairs that share anything.
std::vector<ColmapPair> StrongestPairs(const std::vector<ColmapPair>& pairs, size_t per_photo);

}  // namespace nerf
