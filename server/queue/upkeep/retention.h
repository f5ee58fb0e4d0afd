#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// Deletes what is kept for a limited time: requests, and events of jobs that ended. Works in
// slices, so that the queue's lock is never held for long. Not thread-safe. `state` outlives it.
class Retention {
 public:
  static constexpr size_t kMaxRequests = 100'000;

  // Of each project the `max_requests` newest requests are remembered, whatever their age.
  explicit Retention(QueueState* state, size_t max_requests = kMaxRequests);

  // Works once an hour; other calls only forget requests above the limit. Waits for the store; the
  // next call retries what the store refused.
  absl::Status Sweep();

 private:
  // Of jobs that ended long enough ago, drops all events but the last. Looks at up to a slice of
  // the jobs from `from` on and moves `from` behind them. Returns false at the end.
  absl::StatusOr<bool> TrimEvents(ResourceKey* from);
  absl::Status ForgetRequests();
  absl::Status ForgetSurplusRequests();
  // The times of the requests of projects that have too many.
  std::map<std::string, std::vector<absl::Time>> SurplusTimes();
  // Forgets requests of a project that are older than `before`.
  absl::Status ForgetRequestsOf(const std::string& project, absl::Time before);

  QueueState& state_;
  const size_t max_requests_;
  SteadyTime swept_at_;
};

}  // namespace nerf
