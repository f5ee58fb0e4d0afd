#pragma once

#include "absl/status/status.h"
#include "server/queue/jobs/job_spec.h"

namespace nerf {

// Whether `job` can be gone on from so. Errors: FailedPrecondition STATE_CONFLICT (it has neither
// succeeded nor was it cancelled, or was trained in parts, whose optimizers are not kept); NotFound
// RESOURCE_NOT_FOUND (no checkpoint); InvalidArgument FIELD_INVALID (the total is spent already, or
// is in seconds where the job's budget is not).
absl::Status CheckExtension(const Job& job, const Extension& extension);

// Gives the job's training the new total. Requires: CheckExtension is OK.
void Extend(const Extension& extension, TrainingSpec* training);

}  // namespace nerf
