#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace nerf {

// An absl::Status as plain values: results of background work cross threads in this form.
struct CallResult {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  std::string reason;  // one of nerf::reason, or empty

  bool ok() const { return code == absl::StatusCode::kOk; }
};

CallResult ToCallResult(const absl::Status& status);
absl::Status ToStatus(const CallResult& result);

// Errors of this worker's own files, told apart from what a server answers: no room or no file
// descriptors left (ErrnoToStatus) becomes RESOURCE_EXHAUSTED WORKER_EXHAUSTED. Others stay.
absl::Status AsOwnError(absl::Status status);

// The same error, its message after `prefix`.
absl::Status Prefixed(std::string_view prefix, const absl::Status& status);

// True for errors that pass by themselves: no server, deadline, lost race, the server's full disk.
// Not for WORKER_EXHAUSTED, whatever its code says.
bool IsTransient(absl::StatusCode code);

// True for errors that a server which is there answers with, and that may pass or not: a bug, a
// token that is wrong now.
bool MayPass(absl::StatusCode code);

}  // namespace nerf
