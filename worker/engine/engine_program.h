#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/child_process.h"

namespace nerf {

// How to run nerf-engine as a program that does one thing and ends, such as `nerf-engine export`.
struct EngineProgramOptions {
  std::string engine;  // path of nerf-engine
  int threads = 0;     // 0: one for each core
  bool sandboxed = true;
  uint64_t max_data_bytes = 0;  // that it and each program that it starts may allocate; 0: any
  std::vector<std::string> read_paths = {};     // that it may read, besides what it needs
  absl::Duration time_limit = absl::Hours(12);  // of its work
};

// What one run may reach, besides that.
struct EngineProgramReach {
  std::vector<std::string> programs = {};    // that it may start
  std::vector<std::string> read_paths = {};  // files and folders
  std::string work = {};  // folder that it may write, also its temporary files; may be empty
};

// Runs `arguments` of nerf-engine in a sandbox: no network, files of `reach` alone, a process group
// that is killed whole on a stop. Blocks; on_line is called on this thread. Errors: those of the
// system.
absl::StatusOr<ChildProcessEnd> RunEngineProgram(const EngineProgramOptions& options,
                                                 std::vector<std::string> arguments,
                                                 const EngineProgramReach& reach,
                                                 absl::Duration limit,
                                                 const ChildProcess::OnLine& on_line,
                                                 const std::stop_token& stop);

// Unavailable ENGINE_CRASHED: `what` ("the export") broke down.
absl::Status ProgramCrashed(std::string_view what, std::string_view how);

// Why a run of it failed: Cancelled after a stop; DeadlineExceeded; ResourceExhausted
// WORKER_EXHAUSTED where the disk was full; ENGINE_CRASHED where it, or a program that it runs,
// broke down. Every other `error`, what it said of its failure, is returned as it is, but for a
// reason that only names its code.
absl::Status FailureOfProgram(std::string_view what, const ChildProcessEnd& end,
                              const std::optional<absl::Status>& error);

}  // namespace nerf
