#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "server/queue/jobs/job_change.h"

namespace nerf {

// The reason with which a job is queued when its placement ends for `reason` after a stop was
// requested for `stop`.
QueueReason ReasonOf(StopCause stop, QueueReason reason);

// The label under which metrics count a placement that was handed back.
std::string_view ResultOf(StopCause stop);

// Ends the job FAILED, because it was given to no worker by start_by, or has not ended by end_by.
absl::Status FailAtStartDeadline(JobChange& change);
absl::Status FailAtEndDeadline(JobChange& change);

}  // namespace nerf
