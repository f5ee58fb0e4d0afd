#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/queue/jobs/job.h"

namespace nerf {

// A training that goes on from the last checkpoint of one that has ended, to a larger budget.
struct Extension {
  std::string of;            // id of that job; empty: no extension
  std::string budget_kind;   // as in JobConfig
  double budget_amount = 0;  // a new total: what `of` trained counts
};

// Whether `job` can be gone on from so. Errors: FailedPrecondition STATE_CONFLICT (it has neither
// succeeded nor was it cancelled, or was trained in parts, whose optimizers are not kept); NotFound
// RESOURCE_NOT_FOUND (no checkpoint); InvalidArgument FIELD_INVALID (the total is spent already, or
// is in seconds where the job's budget is not).
absl::Status CheckExtension(const Job& job, const Extension& extension);

// Gives the job's training the new total. Requires: CheckExtension is OK.
void Extend(const Extension& extension, TrainingSpec* training);

}  // namespace nerf
