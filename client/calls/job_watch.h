#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/calls/preview.h"
#include "nerf/v1/training_service.pb.h"

namespace nerf {

class Session;

struct WatchOptions {
  // Retry even if the server was never reached. Otherwise the first failure ends the watch.
  bool patient_from_start = false;
  PreviewFlags preview = {};
};

// Follows a job to its end and shows its progress. A broken stream is resumed at the last token,
// with growing pauses, until --timeout. --output jsonl prints every message.
// Errors: those of the server; Cancelled after Ctrl-C; DeadlineExceeded after --timeout.
absl::StatusOr<v1::TrainingJob> WatchJob(Session& session, const std::string& name,
                                         const WatchOptions& options = {});

// WatchJob, then prints the result and the next command. Exit code 3 if the job did not succeed;
// after Ctrl-C 130, with a note that the job keeps running.
int WatchJobToTheEnd(Session& session, const std::string& name, const WatchOptions& options = {});

}  // namespace nerf
