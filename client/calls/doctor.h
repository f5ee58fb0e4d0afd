#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace nerf {

class Session;

enum class CheckResult { kOk, kNote, kProblem };

// One finding about an installation.
struct DoctorFinding {
  std::string check;  // "server", "workers", ...
  CheckResult result = CheckResult::kOk;
  std::string detail;
  std::string remedy;  // what to do; empty if nothing
};

struct DoctorOptions {
  std::string data_dir;    // nerfd's
  std::string binary_dir;  // where nerfd, nerf-worker and nerf-engine should lie
};

// Checks that the server answers and is healthy, and that its workers are alive and of our version.
std::vector<DoctorFinding> ExamineServer(Session& session);

// Checks the binaries beside ours and runs `nerf-engine doctor`. Missing binaries are problems only
// if `server_is_local`.
std::vector<DoctorFinding> ExamineBinaries(const DoctorOptions& options, bool server_is_local);

// Checks the permissions of the worker token and the free space of nerfd's data folder.
std::vector<DoctorFinding> ExamineDataDir(const DoctorOptions& options);

// Runs a program and returns its standard output, at most 1 MiB; standard error is dropped.
// *exit_code is set if it exits by itself. Errors: NotFound if it cannot be started;
// DeadlineExceeded if it was killed after `timeout`; Internal if a signal ended it.
absl::StatusOr<std::string> RunForOutput(const std::vector<std::string>& command,
                                         absl::Duration timeout, int* exit_code);

}  // namespace nerf
