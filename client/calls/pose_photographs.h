#pragma once

#include <string>

#include "client/flags/photograph_flags.h"

namespace nerf {

class Session;

struct PoseOutcome {
  int exit_code = 0;   // other than 0: it failed, and the reason was printed
  std::string folder;  // of the data set
};

// Whether FolderWithPoses has to find poses first.
bool MustBePosed(const std::string& folder);

// The data set to train for a folder or film that the user named. If it has photographs or films
// and no poses, the program `engine` (nerf-engine) finds them and writes FOLDER-posed, which takes
// minutes; a data set that is there already is used, with a warning of photographs that it does not
// know. Any other folder is returned as it is.
PoseOutcome FolderWithPoses(Session& session, const std::string& folder, const std::string& engine,
                            const PhotographFlags& flags);

// Makes sure that FolderWithPoses can begin to find poses. Requires: MustBePosed(folder). Returns
// the exit code after printing the same reasons as FolderWithPoses.
int CheckPosing(Session& session, const std::string& folder, const std::string& engine,
                const PhotographFlags& flags);

}  // namespace nerf
