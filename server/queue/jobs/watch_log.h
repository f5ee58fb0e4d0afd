#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "server/queue/jobs/job_event.h"

namespace nerf {

// A callback that can be disarmed: after Disarm has returned it is not running and never runs
// again. Thread-safe. The callback should only wake a reader: it may read the queue, but must
// neither change it nor destroy the owner of the signal.
class WatchSignal {
 public:
  explicit WatchSignal(std::function<void()> callback) : callback_(std::move(callback)) {}
  void Fire() ABSL_LOCKS_EXCLUDED(mu_);
  void Disarm() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  std::function<void()> callback_ ABSL_GUARDED_BY(mu_);
};

// The recent stored events of one job, with consecutive sequence numbers, and the signals of
// watchers. Not thread-safe: guarded by the queue's lock.
class WatchLog {
 public:
  // Requires: event.sequence is the last event's + 1 (any for the first event).
  void Append(JobEvent event, SteadyTime now);
  // Drops the oldest events until `max_events` are left.
  void Trim(size_t max_events);

  // The kept event of that sequence; null when there is none.
  const JobEvent* At(uint64_t sequence) const;
  // The first kept event after `sequence`; null when there is none.
  const JobEvent* After(uint64_t sequence) const;
  // When the kept event of that sequence was appended. Requires: At(sequence) is not null.
  SteadyTime TimeOf(uint64_t sequence) const { return times_[sequence - events_.front().sequence]; }
  // True if an event after `sequence` was dropped. `last_sequence` is that of the job's last event.
  bool HasGapAfter(uint64_t sequence, uint64_t last_sequence) const;
  // The step of the first checkpoint that was committed after `sequence`.
  std::optional<uint32_t> NextCheckpointStepAfter(uint64_t sequence) const;
  uint64_t first_sequence() const { return events_.empty() ? 0 : events_.front().sequence; }
  size_t size() const { return events_.size(); }

  // Gives progress that is not stored a new version number. Watchers compare it, to show only the
  // latest progress and each only once.
  void SetLiveProgress() { ++live_version_; }
  uint64_t live_version() const { return live_version_; }
  // The version that the last event includes.
  uint64_t event_version() const { return event_version_; }

  void Subscribe(std::shared_ptr<WatchSignal> signal);
  void Unsubscribe(const std::shared_ptr<WatchSignal>& signal);
  // Adds the signals of all watchers to `wake`.
  void SignalAll(std::vector<std::shared_ptr<WatchSignal>>& wake) const;
  size_t n_watchers() const { return signals_.size(); }

 private:
  std::deque<JobEvent> events_;
  std::deque<SteadyTime> times_;  // of the same events
  uint64_t live_version_ = 0;
  uint64_t event_version_ = 0;
  std::vector<std::shared_ptr<WatchSignal>> signals_;
};

}  // namespace nerf
