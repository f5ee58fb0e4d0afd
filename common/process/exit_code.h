#pragma once

#include "absl/status/status.h"

namespace nerf {

// Exit codes of every binary.
enum ExitCode : int {
  kOk = 0,
  kBug = 1,           // internal error, or damage on the server
  kUsage = 2,         // wrong flags or arguments, also those that only the server detects
  kJobFailed = 3,     // the job that was waited for failed
  kDenied = 4,        // no token, or not allowed
  kNotFound = 5,      // the named resource does not exist
  kUnreachable = 6,   // no server or worker answered; may be retried
  kWrongState = 7,    // the resource's state does not allow it
  kExhausted = 8,     // memory, disk, quota or queue full
  kBadData = 9,       // bad content of files: data set, cameras, checkpoint
  kInterrupted = 130  // Ctrl-C
};

// The exit code for how a call ended.
inline ExitCode ExitCodeFor(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kDenied;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnreachable;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return kWrongState;
    case absl::StatusCode::kResourceExhausted:
      return kExhausted;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
      return kBadData;
    case absl::StatusCode::kCancelled:
      return kInterrupted;
    default:
      return kBug;
  }
}

}  // namespace nerf
