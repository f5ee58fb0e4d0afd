#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace nerf {

// The parts of an absl::Status that retries look at. Background work leaves its result as one.
struct CallResult {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  std::string reason;  // one of nerf::reason, or empty

  bool ok() const { return code == absl::StatusCode::kOk; }
};

CallResult ToCallResult(const absl::Status& status);
absl::Status ToStatus(const CallResult& result);

// Marks errors of this worker's own file system: a full disk or no free file descriptors
// (ErrnoToStatus) becomes RESOURCE_EXHAUSTED WORKER_EXHAUSTED, which differs from the same codes
// sent by a server. Others stay.
absl::Status AsOwnError(absl::Status status);

// NOT_FOUND of a blob becomes DATA_LOSS: of a call it means that the job is gone. Others stay.
absl::Status AsLostBlob(absl::Status status);

// The same error with another message.
absl::Status WithMessage(const absl::Status& status, std::string message);
// The same error with the message "prefix: message".
absl::Status Prefixed(std::string_view prefix, const absl::Status& status);

// True for errors that end by themselves: no server, deadline, lost race, full disk of the server.
// Callers handle WORKER_EXHAUSTED, which shares a code with them, first.
bool IsTransient(absl::StatusCode code);

// True for errors of a reachable server that may or may not end: a bug, a token that is wrong at
// present.
bool MayPass(absl::StatusCode code);

}  // namespace nerf
