#pragma once

#include "absl/status/status.h"
#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job_spec.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Adds to the spec of a request what the queue cannot know of a job of its kind, and checks what
// depends on workers, blobs and scenes. `request` outlives `spec`. Errors: those of CreateJob.
absl::Status AdmitJob(const ServiceContext& services, const v1::CreateJobRequest& request,
                      JobSpec* spec);

}  // namespace nerf
