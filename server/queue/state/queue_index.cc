#include "server/queue/state/queue_index.h"

#include "server/queue/kinds/kind_policy.h"

namespace nerf {

void QueueIndex::Place(JobEntry& entry, bool waits) {
  TakeAway(entry);
  const Job& job = entry.job;
  entry.rank = {job.priority, job.create_sequence};
  if (!waits) return;
  const std::string capability(CapabilityOf(job));
  queues_[job.key.project].emplace(entry.rank, capability);
  ranks_[{job.key.project, capability}].insert(entry.rank);
  waiting_.insert(job.create_sequence);
}

void QueueIndex::TakeAway(const JobEntry& entry) {
  const std::string& project = entry.job.key.project;
  const auto queue = queues_.find(project);
  if (queue == queues_.end()) return;
  const auto place = queue->second.find(entry.rank);
  if (place == queue->second.end()) return;
  // By the capability that it had.
  const auto same = ranks_.find({project, place->second});
  same->second.erase(entry.rank);
  if (same->second.empty()) ranks_.erase(same);
  queue->second.erase(place);
  if (queue->second.empty()) queues_.erase(queue);
  waiting_.erase(entry.job.create_sequence);
}

size_t QueueIndex::CountAhead(const Job& job) const {
  const auto ranks = ranks_.find({job.key.project, std::string(CapabilityOf(job))});
  return ranks == ranks_.end() ? 0
                               : ranks->second.order_of_key({job.priority, job.create_sequence});
}

void QueueIndex::BeginWait(JobEntry& entry, SteadyTime since) {
  entry.queued_at = since;
  waits_since_.insert(since);
}

void QueueIndex::EndWait(const JobEntry& entry) { waits_since_.extract(entry.queued_at); }

std::optional<SteadyTime> QueueIndex::OldestWait() const {
  return waits_since_.empty() ? std::nullopt : std::optional(*waits_since_.begin());
}

void QueueIndex::EnterState(const Job& job, JobState state) {
  ++counts_[{job.key.project, state}];
  ++kind_counts_[{job.kind, state}];
}

void QueueIndex::LeaveState(const Job& job, JobState state) {
  const auto count = counts_.find({job.key.project, state});
  if (--count->second == 0) counts_.erase(count);
  --kind_counts_[{job.kind, state}];
}

size_t QueueIndex::CountOf(const std::string& project, JobState state) const {
  const auto found = counts_.find({project, state});
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace nerf
