#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/clock.h"
#include "server/queue/jobs/job_change.h"
#include "server/queue/jobs/queue_rank.h"

namespace nerf {

// Which jobs wait for a worker, in which order, and how many jobs are in each state. Not
// thread-safe: guarded by the queue's lock.
class QueueIndex {
 public:
  // CapabilityOf jobs that are QUEUED or WantsWorker, in the order in which they start.
  using Queue = std::map<QueueRank, std::string>;

  // Puts a job that waits at its place, from which its rank is then known, and takes others away.
  void Place(JobEntry& entry, bool waits);
  const std::map<std::string, Queue>& queues() const { return queues_; }  // by project
  bool Waits(uint64_t create_sequence) const { return waiting_.contains(create_sequence); }
  size_t n_waiting() const { return waiting_.size(); }
  bool empty() const { return queues_.empty() && ranks_.empty() && waiting_.empty(); }
  // Number of jobs of its project and capability that start before this one.
  size_t CountAhead(const Job& job) const;

  // Sets the time since when a QUEUED job waits, and forgets it.
  void BeginWait(JobEntry& entry, SteadyTime since);
  void EndWait(const JobEntry& entry);
  // Of the job that has waited longest.
  std::optional<SteadyTime> OldestWait() const;

  void EnterState(const Job& job, JobState state);
  // A count of zero has no entry.
  void LeaveState(const Job& job, JobState state);
  size_t CountOf(const std::string& project, JobState state) const;
  const std::map<std::pair<std::string, JobState>, size_t>& counts() const { return counts_; }
  const std::map<std::pair<JobKind, JobState>, size_t>& kind_counts() const { return kind_counts_; }

 private:
  void TakeAway(const JobEntry& entry);

  std::map<std::string, Queue> queues_;
  std::map<std::pair<std::string, std::string>, RankSet> ranks_;  // by project and capability
  std::set<uint64_t> waiting_;                                    // by create_sequence
  std::multiset<SteadyTime> waits_since_;
  std::map<std::pair<std::string, JobState>, size_t> counts_;  // by project
  std::map<std::pair<JobKind, JobState>, size_t> kind_counts_;
};

}  // namespace nerf
