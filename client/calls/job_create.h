#pragma once

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "client/calls/job_flags.h"
#include "client/calls/job_watch.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

class Session;

// Calls `create` with the request that the flags ask for, which lacks the scene, and returns its
// exit code. Prints the settings instead if --help-settings is given. Wrong flags are a usage
// error, with `of_command`, what the command itself found wrong.
int WithJobRequest(Session& session, const JobFlags& flags, const absl::Status& of_command,
                   const std::function<int(v1::CreateJobRequest& request)>& create);

// Validates the request on the server before the upload, without its scene. Warns if no connected
// worker can train it. With `may_be_repeated`, an existing job of the same id is no error: it may
// be that of an earlier attempt. Errors: those of CreateJob.
absl::Status AskBeforeUpload(Session& session, v1::CreateJobRequest request, bool may_be_repeated);

// Creates the job of the whole request, prints it and, if `watch` is set, follows it to its end; of
// a request with validate_only only says whether it is valid. Returns the exit code.
// `before_watch`, if it is set, is called in between; another exit code than kOk ends the call.
int SubmitJob(Session& session, const v1::CreateJobRequest& request,
              const std::optional<WatchOptions>& watch,
              const std::function<int(const v1::Job& job)>& before_watch = nullptr);

}  // namespace nerf
