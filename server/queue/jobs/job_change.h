#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_event.h"
#include "server/queue/jobs/job_inputs.h"
#include "server/queue/jobs/queue_rank.h"
#include "server/queue/jobs/training_curve.h"
#include "server/queue/jobs/watch_log.h"

namespace nerf {

// A job in memory: the stored record, and what is not stored.
struct JobEntry {
  Job job;
  uint64_t record_bytes = 0;  // as counted by QueueState
  SteadyTime progress_stored_at;
  SteadyTime queued_at;  // start of its wait, while it is QUEUED
  QueueRank rank;        // in its QueueIndex::Queue, while it waits
  bool waits = false;    // QUEUED, and for a worker
  SteadyTime ended_at;   // when it became final, or the server's start if that was later
  // Workers without room for the job's files and, if no other is left, how often that was so and
  // when it is tried again. Not stored: a restart tries at once.
  struct Aside {
    std::set<std::string> no_room_on;
    int n_rounds = 0;
    SteadyTime until;
  };
  Aside aside;
  int n_quota_stops = 0;  // of a job that starts over; not stored either
  // Files that it needs and the blob store lacks; with QueueState::lacking_jobs.
  std::vector<JobInput> lacking;
  // A deadline of the job, and when it is by the steady clock.
  struct Deadline {
    absl::Time wall = absl::InfiniteFuture();
    SteadyTime steady;
  };
  Deadline start_by, end_by;
  SteadyTime stop_requested_at;  // Job::stop
  // With StopCause::kPreempted: the job for which it stops, and which of its workers that job gets.
  ResourceKey preempted_for;
  std::vector<std::string> kept_workers;
  std::vector<SteadyTime> preempted_at;  // of the last hour
  WatchLog log;
  TrainingCurve curve;  // empty in a final state: the store has it
};

// A change of one job that is not committed yet: a copy that is changed step by step, and an event
// for each step. QueueState::Apply commits it; until then nobody else sees it.
class JobChange {
 public:
  JobChange(const JobEntry& entry, absl::Time now);

  // Changes the copy's state (Transition) and records the event. Change the fields that the event
  // shows before this call. Internal if the diagram has no such arrow.
  absl::Status Move(JobState to, QueueReason reason = QueueReason::kNone);
  // Records an event of another kind. `checkpoint_step` is only for kCheckpointCommitted.
  void Record(JobEventKind kind, uint32_t checkpoint_step = 0);

  Job job;
  const std::vector<JobEvent>& events() const { return events_; }
  // The state on which the change was decided.
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

// An event that shows `job` as it is now.
JobEvent MakeJobEvent(const Job& job, JobEventKind kind, uint32_t checkpoint_step, absl::Time now);

}  // namespace nerf
