#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/pose_limits.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/posing/photographs/photographs.h"

namespace nerf {

struct FilmOptions {
  std::string ffmpeg = "ffmpeg", ffprobe = "ffprobe";  // programs: paths or names
  int n_frames = kDefaultFilmFrames;
  // Of what it writes while it chooses, as the film's header says: pixels, and bytes of the disk.
  double max_pixels = 5e9, max_bytes = 1e18;
  ThreadPool* pool = nullptr;  // borrowed for the call
  std::stop_token stop;
  std::function<void(size_t done, size_t of)> on_progress;  // frames decoded; of 0: not known
};

// Extracts about n_frames pictures of a film into `out`, which exists: spread evenly in time, each
// the sharpest of a few neighbors, fewer where the film has no more or the limits say so. Films in
// HDR (HLG, PQ) are tone-mapped to sRGB, diffuse white of 203 nits (ITU-R BT.2408) to white; the
// pictures' note says so, or that this ffmpeg cannot. Errors:
// Unimplemented FEATURE_NOT_BUILT if ffmpeg is not installed; InvalidArgument if the film cannot be
// decoded or has more than max_pixels; Cancelled; ResourceExhausted, STORE_READ_ONLY where there is
// no room.
absl::StatusOr<std::vector<PhotoSources::Picture>> FramesOfFilm(const std::string& film,
                                                                const std::string& out,
                                                                const FilmOptions& options);

// The version of the ffmpeg that would be run, such as "5.1.6". Errors: Unimplemented
// FEATURE_NOT_BUILT if it or ffprobe is not installed; FailedPrecondition if it does not say.
absl::StatusOr<std::string> FfmpegVersion(const std::string& ffmpeg, const std::string& ffprobe);

}  // namespace nerf
