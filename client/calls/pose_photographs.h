#pragma once

#include <string>

#include "client/flags/photograph_flags.h"
#include "engine/scene/read/source.h"

namespace nerf {

class Session;

struct PoseOutcome {
  int exit_code = 0;   // other than 0: it failed, and the reason was printed
  std::string folder;  // of the data set
};

// The data set to train for what the user named. If it must be posed, the program `engine`
// (nerf-engine) finds the poses and writes source.posed, which takes minutes; a data set that is
// there already is used, with a warning of photographs that it does not know. Any other folder is
// returned as it is.
PoseOutcome FolderWithPoses(Session& session, const Source& source, const std::string& engine,
                            const PhotographFlags& flags);

// Makes sure that FolderWithPoses can begin to find poses. Requires: source.MustBePosed(). Returns
// the exit code after printing the same reasons as FolderWithPoses.
int CheckPosing(Session& session, const Source& source, const std::string& engine,
                const PhotographFlags& flags);

}  // namespace nerf
