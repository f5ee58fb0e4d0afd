#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// A training that is shared out among jobs. The jobs of its parts are ordinary training jobs, which
// follow the job that they are part of: they are paused, cancelled and deleted with it
// (PartUpkeep), and never alone.

// The entries of the parts' jobs, in their order. Those that are missing are left out.
std::vector<JobEntry*> PartsOfJob(QueueState& state, const Job& job)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// Whether a worker may be granted the job: of the parts of one job at most as many are at work as
// it asks for workers, and none while it is paused. True for a job that is no part.
bool PartMayStart(const QueueState& state, const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// OK for a job that a client may change by itself. FailedPrecondition STATE_CONFLICT naming the job
// of which it is a part.
absl::Status CheckNoPart(const QueueState& state, const Job& job)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// An id for the part with this index: the job's and "-part0", "-part1" and so on, cut to what an id
// may have; a random one if that is taken.
std::string NewPartId(const Job& job, size_t index, QueueState& state)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

// What watchers of the job see of its parts' progress: means of steps and shares, sums of counts
// and rates, the latest end.
v1::Progress ProgressOfParts(const std::vector<JobEntry*>& parts);

}  // namespace nerf
