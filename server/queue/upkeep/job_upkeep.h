#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/queue_state.h"
#include "server/queue/upkeep/part_upkeep.h"

namespace nerf {

// What happens to jobs without a request: deadlines pass, a job of a higher priority takes a
// worker, a worker is drained, a project has used its workers' time of the day, parts of a job end
// (PartUpkeep), a pose job for which it waits ends. Where a worker is taken or drained or the day
// is used, and at the end deadline, the job's workers are asked to commit a checkpoint and hand it
// back (QueueState::RequestStop). Not thread-safe. State and workers outlive it.
class JobUpkeep {
 public:
  // A job waits this long before another is preempted for it.
  static constexpr absl::Duration kPreemptAfter = absl::Seconds(2);
  static constexpr size_t kMaxPreemptionsPerHour = 2;  // of one job

  JobUpkeep(QueueState* state, WorkerTable* workers);

  // Call about once a second. Does not wait for the store; the next call retries what it refused.
  void Tick();

 private:
  // Starts or fails trainings whose pose jobs have ended.
  void FollowPoses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void EnforceDeadlines() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Looks at the deadlines of a job that nobody is changing. Returns when to look again.
  std::optional<SteadyTime> EnforceDeadlinesOf(JobEntry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Whether a worker has had the job or a part of it.
  bool HasStarted(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void FailLater(JobEntry& entry, JobChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Adds the time since the last call to the meters of the projects whose leases are held.
  void Meter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void StoreMeters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Asks back the jobs of drained workers and of projects whose day is used.
  void StopHeldJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void Preempt(std::span<const WorkerRecord> workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The queued job of a project for which another may be preempted: the first that could start.
  JobEntry* FirstWaiting(const std::string& project) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The job that the worker trains, alone or with others; null if there is none.
  JobEntry* JobOf(const WorkerRecord& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Whether a job of the project has been preempted and has not yet given its workers up.
  bool IsPreempting(const std::string& project) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Whether the job may be preempted for `waiting`.
  bool GivesWay(JobEntry& entry, const Job& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Preempts the job of the lowest priority, of those the youngest, that has a worker for
  // `waiting`.
  void PreemptOne(const JobEntry& waiting, std::span<const WorkerRecord> workers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Preempts as few jobs as give a gang enough workers, if there are so many, and keeps the free
  // ones that it needs, too.
  void PreemptForGang(const JobEntry& waiting, std::span<const WorkerRecord> workers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Stops the job; `waiting` gets `workers` of it.
  void Stop(JobEntry& victim, const JobEntry& waiting, std::vector<std::string> workers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Workers are kept at least until the jobs have stopped that are preempted for the same job.
  void KeepReserved() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
  WorkerTable& workers_;
  PartUpkeep parts_;
  SteadyTime metered_at_;
  SteadyTime meters_stored_at_;
  std::set<std::string> changed_meters_;  // projects
};

}  // namespace nerf
