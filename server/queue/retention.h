#pragma once

#include "absl/status/status.h"
#include "server/queue/queue_state.h"

namespace nerf {

// Deletes what is kept for a limited time: requests, and events of jobs that ended. Works in
// slices, so that the queue's lock is never held for long. Not thread-safe. `state` outlives it.
class Retention {
 public:
  explicit Retention(QueueState* state);

  // Works once an hour; other calls do nothing. Waits for the store; the next call retries what the
  // store refused.
  absl::Status Sweep();

 private:
  // Of jobs that ended long enough ago, drops all events but the last. Looks at up to a slice of
  // the jobs from `from` on and moves `from` behind them. Returns false at the end.
  absl::StatusOr<bool> TrimEvents(ResourceKey* from);
  absl::Status ForgetRequests();

  QueueState& state_;
  SteadyTime swept_at_;
};

}  // namespace nerf
