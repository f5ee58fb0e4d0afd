#pragma once

#include <vector>

#include "server/queue/state/queue_state.h"

namespace nerf {

// Keeps jobs that are shared out among others (part_jobs.h) and those others in step. Their parts
// are paused, resumed and cancelled as they are, and get their priority and end deadline. A job
// whose parts have all succeeded is queued for a worker that merges their models; after that, the
// parts' checkpoints are dropped. A part that fails fails its job. All of it follows from the
// stored states, so that a restart loses nothing. Not thread-safe. The state outlives it.
class PartUpkeep {
 public:
  explicit PartUpkeep(QueueState* state) : state_(*state) {}

  // Call about once a second. Does not wait for the store; the next call retries what it refused.
  void Tick();

 private:
  // Returns whether nothing is left to do for the job.
  bool KeepUp(JobEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Brings a part whose job has not ended to the state that follows from it.
  void Follow(const Job& whole, JobEntry& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The same for a job that has ended. Returns whether the part has ended, too, and keeps nothing
  // that the job does not need.
  bool End(const Job& whole, JobEntry& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Moves a waiting job on if its parts say so; else shows their progress.
  void MoveOn(JobEntry& entry, const std::vector<JobEntry*>& parts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
};

}  // namespace nerf
