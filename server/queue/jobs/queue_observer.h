#pragma once

#include <string_view>

#include "absl/time/time.h"
#include "server/queue/jobs/job.h"

namespace nerf {

// Receives the queue's events, for metrics. Called with the queue's lock held, so implementations
// must be quick and must not call the queue. Thread-safe. The base class does nothing.
class QueueObserver {
 public:
  virtual ~QueueObserver() = default;

  virtual void OnJobCreated(const Job& job) {}
  // The job is final.
  virtual void OnJobFinished(const Job& job) {}
  // A placement ended; `result` is completed, lease_expired, drained, preempted, engine_crash,
  // no_room, checkpoint_corrupt, blobs_missing, failed or cancelled.
  virtual void OnAttemptEnded(const Job& job, std::string_view result) {}
  // A job was placed after it had waited this long.
  virtual void OnJobLeftQueue(absl::Duration waited) {}
  // A watcher that had read all events got one this long after it was committed (machine clock).
  virtual void OnWatchEvent(absl::Duration delay) {}
  // A watcher got a snapshot in place of events that are not kept. `resumed`: at its begin.
  virtual void OnWatchGap(bool resumed) {}
  virtual void OnLeaseExpired(const Job& job) {}
  // A write with a stale epoch was refused; `call` is the queue's method.
  virtual void OnFencedWrite(std::string_view call) {}
  // A store transaction took this long (by the injected clock).
  virtual void OnCommit(absl::Duration duration, bool ok) {}
};

}  // namespace nerf
