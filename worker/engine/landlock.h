#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/file_io.h"

namespace nerf {

// What a process and its children may do with files, by Landlock (Linux 5.13; see landlock(7)).
struct LandlockPaths {
  std::vector<std::string> read;     // folders or files
  std::vector<std::string> write;    // folders: read, write, make, remove
  std::vector<std::string> execute;  // files: read and execute
  std::vector<std::string> devices;  // files: read, write and ioctl
  bool tcp = false;                  // also bind and connect TCP sockets
};

// A ruleset that allows nothing but these paths, and as far as the kernel knows how, no TCP and no
// signals to processes outside. Paths that do not exist are left out. Requires: LandlockVersion() >
// 0. Errors: those of the system.
absl::StatusOr<UniqueFd> MakeLandlockRuleset(const LandlockPaths& paths);

// Restricts this thread, for ever. Async-signal-safe. Requires PR_SET_NO_NEW_PRIVS.
bool EnforceLandlock(int ruleset);

}  // namespace nerf
