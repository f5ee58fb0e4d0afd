#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/engine/engine_libraries.h"
#include "worker/engine/landlock.h"

namespace nerf {

// What an engine may reach. An engine reads files that strangers have made, so a flaw in one of its
// parsers must open neither tokens, nor the network, nor the jobs of others.
struct EngineSandboxOptions {
  bool enabled = false;
  // Folders and files that it may read, besides the system's. A device of /dev it may also use.
  std::vector<std::string> read_paths = {};
  std::vector<std::string> write_paths = {};  // folders that it may read and write
  // Also what CUDA needs: the driver's libraries and devices, /dev/shm, which all engines with a
  // GPU share, and sockets of this machine that nobody connects to.
  bool gpu = false;
  uint64_t max_file_bytes = uint64_t{64} << 30;
  uint64_t max_open_files = 4096;
  // Memory that it may allocate (RLIMIT_DATA: what it writes to, beyond files); 0: any.
  uint64_t max_data_bytes = 0;
  // Programs that it may start, too, as paths. They have the same limits and its process group.
  std::vector<std::string> programs = {};
  // Also TCP, for an engine that trains a job together with those of other workers.
  bool ranks = false;
};

// Sockets that may be made.
struct SocketRule {
  int domain, type;             // AF_UNIX, SOCK_STREAM
  std::optional<int> protocol;  // nullopt: any
};

// All that an engine may do, as data.
struct EngineRules {
  LandlockPaths paths;
  // Numbers of the system calls that may be made with any arguments. Besides these: sockets of the
  // rules below, new threads and, if allowed, processes, a few requests to open files, its own
  // limits.
  std::set<int> calls;
  std::vector<SocketRule> sockets;
  bool processes = false;    // new processes, but no groups or sessions of theirs
  std::string library_path;  // LD_LIBRARY_PATH
};

// The rules for an engine at the path `program`.
EngineRules RulesOf(const EngineSandboxOptions& options, const std::string& program,
                    const LoaderPaths& loader_paths);

}  // namespace nerf
