#pragma once

#include <string>

#include "nerf/v1/training_service.pb.h"

namespace nerf {

class Session;

// Sends a complete request, prints the job and follows it where `watch`; `views` as in
// WatchOptions. Returns the exit code.
int SubmitJob(Session& session, const v1::CreateTrainingJobRequest& request, bool watch,
              const std::string& views = "");

}  // namespace nerf
