#pragma once

#include "absl/status/status.h"
#include "server/queue/queue_state.h"

namespace nerf {

// Forgets what is only kept for a while: requests, and the events of jobs that ended. Works in
// slices, so that the queue's lock is never held for long. Not thread-safe. `state` outlives it.
class Retention {
 public:
  explicit Retention(QueueState* state);

  // Once an hour does its work, otherwise nothing. Waits for the store; the next call tries again
  // what it refused.
  absl::Status Sweep();

 private:
  // Drops all events but the last of jobs that ended long enough ago, of up to a slice of the jobs
  // from `from` on. Moves `from` behind them; false at the end.
  absl::StatusOr<bool> TrimEvents(ResourceKey* from);
  absl::Status ForgetRequests();

  QueueState& state_;
  SteadyTime swept_at_;
};

}  // namespace nerf
