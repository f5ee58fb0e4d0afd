#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nerf/v1/training_service.pb.h"

namespace nerf {

class Session;

struct WatchOptions {
  // Try again also when the server was not reached even once; otherwise that is an error at once.
  bool patient_from_start = false;
  // The flag of `render` for the views that fit the capture (see SayNextRender).
  std::string views = {};
};

// Follows a job to its end and shows its progress. A stream that breaks is taken up again at the
// last token, with growing pauses, until --timeout. With --output jsonl every message is printed.
// Errors: those of the server; Cancelled after Ctrl-C; DeadlineExceeded after --timeout.
absl::StatusOr<v1::TrainingJob> WatchJob(Session& session, const std::string& name,
                                         const WatchOptions& options = {});

// WatchJob, then the result, the next command and the exit code: 3 where the job did not succeed;
// 130 with a word about the job that keeps running after Ctrl-C.
int WatchJobToTheEnd(Session& session, const std::string& name, const WatchOptions& options = {});

}  // namespace nerf
