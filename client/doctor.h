#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace nerf {

class Session;

enum class CheckResult { kOk, kNote, kProblem };

// One finding about a set-up.
struct DoctorFinding {
  std::string check;  // "server", "workers", ...
  CheckResult result = CheckResult::kOk;
  std::string detail;
  std::string remedy;  // what to do; empty where nothing has to be done
};

struct DoctorOptions {
  std::string data_dir;    // nerfd's
  std::string binary_dir;  // where nerfd, nerf-worker and nerf-engine should lie
};

// Whether the server answers, is healthy and has workers that are alive and of our version.
std::vector<DoctorFinding> ExamineServer(Session& session);

// The binaries beside ours, and what `nerf-engine doctor` says. Missing ones are problems only
// where `server_is_local`.
std::vector<DoctorFinding> ExamineBinaries(const DoctorOptions& options, bool server_is_local);

// Rights of the worker token and free space of nerfd's data folder.
std::vector<DoctorFinding> ExamineDataDir(const DoctorOptions& options);

// Runs a program and returns its standard output, at most 1 MiB; standard error is dropped. Errors:
// NotFound when it cannot be started; DeadlineExceeded when it was ended for being slow; Internal
// when a signal ended it. *exit_code is set when it ended by itself.
absl::StatusOr<std::string> RunForOutput(const std::vector<std::string>& command,
                                         absl::Duration timeout, int* exit_code);

}  // namespace nerf
