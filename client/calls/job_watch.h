#pragma once

#include <string>

#include "client/calls/preview.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

class JobFiles;
class Session;

struct WatchOptions {
  // Retry even if the server was never reached. Otherwise the first failure ends the watch.
  bool patient_from_start = false;
  PreviewFlags preview = {};
  JobFiles* files = nullptr;  // set: what the job makes is fetched
};

// Follows a job to its end and shows its progress. A broken stream is resumed at the last token,
// with growing pauses, until --timeout. --output jsonl prints every message. *job: as it was last
// seen, also where its end was not reached. Says why it did not succeed, or what goes on after
// Ctrl-C and --timeout. Returns the exit code: 3 if it did not succeed, 9 where photographs or the
// model were the cause.
int AwaitJob(Session& session, const std::string& name, const WatchOptions& options, v1::Job* job);

// The same, then prints the result and the next command.
int WatchJobToTheEnd(Session& session, const std::string& name, const WatchOptions& options = {});

// Follows a job to its end and fetches its files to `out`, which CheckJobOut has checked; prints
// their paths. Returns the exit code.
int FetchJob(Session& session, const std::string& name, const std::string& out,
             bool patient_from_start = false);

}  // namespace nerf
