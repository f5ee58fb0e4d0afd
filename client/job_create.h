#pragma once

#include <string>

#include "absl/status/status.h"
#include "nerf/v1/training_service.pb.h"

namespace nerf {

class Session;

// Asks the server, before anything is sent, whether it would take the job, all but its scene; warns
// where no worker could train it. With `may_be_repeated` a job of its id may be there: that of an
// earlier try. Errors: those of CreateTrainingJob.
absl::Status AskBeforeUpload(Session& session, v1::CreateTrainingJobRequest request,
                             bool may_be_repeated);

// Sends a complete request, prints the job and follows it where `watch`; `views` as in
// WatchOptions. Returns the exit code.
int SubmitJob(Session& session, const v1::CreateTrainingJobRequest& request, bool watch,
              const std::string& views = "");

}  // namespace nerf
