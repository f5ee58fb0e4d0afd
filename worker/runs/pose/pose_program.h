#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/protocol/pose_lines.h"
#include "worker/engine/engine_program.h"

namespace nerf {

// How to find poses: `nerf-engine pose`, which runs COLMAP and, for films, ffmpeg.
struct PoseProgramOptions : EngineProgramOptions {
  std::string colmap, ffmpeg, ffprobe;  // paths; empty: not installed
};

// Looks for the programs in PATH.
PoseProgramOptions FindPosePrograms();

// What is installed and works in the sandbox. Errors: Unimplemented without COLMAP; others of
// versions and of the system. Takes a second.
absl::StatusOr<protocol::PoseTools> AskPoseTools(const PoseProgramOptions& options);

struct PoseSearchTask {
  std::string photos;  // folder, which is only read
  // Folder for all that it writes, which exists. The data set is in `work`/posed afterwards.
  std::string work;
  double min_posed = 0;
  uint32_t film_frames = 0;
  std::string into = {};    // data set that they are added to, which is only read; may be empty
  std::string camera = {};  // as of nerf-engine's flag; empty: as the photographs say
  double mask_below = 0;
};

// Finds poses in a sandbox: no network, files of the two folders alone, a process group that is
// killed whole. True: enough photographs are posed. False: too few; the report says why. Errors:
// what the engine says of the photographs or of its limits; those of FailureOfProgram. Blocks.
// `on_progress` is called on this thread.
absl::StatusOr<bool> SearchPosesInSandbox(
    const PoseProgramOptions& options, const PoseSearchTask& task,
    const std::function<void(const protocol::Posing&)>& on_progress, const std::stop_token& stop);

}  // namespace nerf
