#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/queue/job.h"
#include "server/queue/job_event.h"
#include "server/queue/watch_log.h"

namespace nerf {

// A job in memory: the stored record and what only lives while the process does.
struct JobEntry {
  Job job;
  SteadyTime progress_stored_at;
  SteadyTime queued_at;  // since when it waits, while it is QUEUED
  WatchLog log;
};

// A change of one job while it is decided: a copy that is changed step by step, and an event for
// each step. Nothing of it is true before it is committed (QueueState::Apply).
class JobChange {
 public:
  JobChange(const JobEntry& entry, absl::Time now);

  // Moves the copy through the one door between states (Transition) and records the event. Change
  // what the event is to show before. Internal when there is no such arrow.
  absl::Status Move(JobState to, QueueReason reason = QueueReason::kNone);
  // Records an event of another kind. `checkpoint_step` is of kCheckpointCommitted.
  void Record(JobEventKind kind, uint32_t checkpoint_step = 0);

  Job job;
  const std::vector<JobEvent>& events() const { return events_; }
  // What the change was decided on.
  JobState old_state() const { return old_state_; }
  uint64_t old_epoch() const { return old_epoch_; }
  uint64_t old_live_version() const { return old_live_version_; }

 private:
  const absl::Time now_;
  const JobState old_state_;
  const uint64_t old_epoch_;
  const uint64_t old_live_version_;
  std::vector<JobEvent> events_;
};

// The first event of a job that is created, and every later one: what `job` shows now.
JobEvent MakeJobEvent(const Job& job, JobEventKind kind, uint32_t checkpoint_step, absl::Time now);

}  // namespace nerf
