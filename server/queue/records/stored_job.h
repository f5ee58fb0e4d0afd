#pragma once

#include "absl/status/status.h"
#include "nerf/internal/store.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_event.h"

namespace nerf {

// Everything of a job but its key, create_sequence, state and lease, which have columns.
internal::JobRecord ToRecord(const Job& job);
// The inverse. DataLoss STORE_CORRUPT. Requires: job->key is set.
absl::Status FromRecord(const internal::JobRecord& record, Job* job);

// Everything of an event but its sequence and kind.
internal::EventRecord ToRecord(const JobEvent& event);
absl::Status FromRecord(const internal::EventRecord& record, JobEvent* event);

}  // namespace nerf
