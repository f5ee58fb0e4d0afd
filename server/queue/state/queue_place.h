#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/queue/jobs/job.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// Where a queued job stands, as far as the reason of its wait depends on it.
struct QueuePlace {
  // How much longer it waits aside because no worker had room for it; otherwise zero.
  absl::Duration aside = absl::ZeroDuration();
  // Number of queued jobs of its project with the same CapabilityOf that start before it.
  size_t n_ahead = 0;
  // Why its project may have no further job at work now, for people; empty if it may.
  std::string quota;
  // Which of its files are damaged or missing in the blob store, for people; empty without one.
  std::string lack;
  // Of a training that waits for a pose job: that job, as far as ExplainWait reads it, and its
  // progress.
  std::optional<Job> poses;
};

// The place of a job, which may be an older copy. Takes the logarithm of the queue's length.
QueuePlace PlaceOf(const QueueState& state, const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);

}  // namespace nerf
