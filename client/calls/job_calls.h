#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/calls/session.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

// The calls about jobs that several commands make. Errors: those of the server.
absl::StatusOr<v1::Job> CreateJob(Session& session, const v1::CreateJobRequest& request);
absl::StatusOr<v1::Job> GetJob(Session& session, const std::string& name,
                               absl::Duration limit = kCallTimeout);

// Prints a job that has changed: "PAUSING  j-7f3k2c81", or the job for programs.
void PrintChanged(const Printer& printer, const v1::Job& job);
// The same of a new job; says what it waits for, and suggests `next`.
void PrintQueued(const Session& session, const v1::Job& job, const std::string& next);

}  // namespace nerf
