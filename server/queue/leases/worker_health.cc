#include "server/queue/leases/worker_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace nerf {

void WorkerHealth::EngineDied(const std::string& worker, const ResourceKey& job, SteadyTime now) {
  Record& record = records_[worker];
  record.died_on.insert(job);
  if (record.died_on.size() < kMaxJobs && record.pause == absl::ZeroDuration()) return;
  record.pause =
      record.pause == absl::ZeroDuration() ? kFirstPause : std::min(2 * record.pause, kMaxPause);
  record.paused_until = now + record.pause;
}

bool WorkerHealth::IsUnhealthy(const std::string& worker) const {
  const auto found = records_.find(worker);
  return found != records_.end() && found->second.pause > absl::ZeroDuration();
}

bool WorkerHealth::MayTakeJob(const std::string& worker, SteadyTime now) const {
  return !IsUnhealthy(worker) || now >= records_.at(worker).paused_until;
}

std::string WorkerHealth::Explain(const std::string& worker, SteadyTime now) const {
  if (!IsUnhealthy(worker)) return "";
  const Record& record = records_.at(worker);
  constexpr size_t kMaxNames = 3;
  std::vector<std::string> names;
  for (const ResourceKey& job : record.died_on) {
    if (names.size() < kMaxNames) names.push_back(job.id);
  }
  const absl::Duration left = record.paused_until - now;
  return fmt::format("its engine died on {} jobs in a row ({}{}); {}", record.died_on.size(),
                     fmt::join(names, ", "), record.died_on.size() > kMaxNames ? ", ..." : "",
                     left > absl::ZeroDuration()
                         ? fmt::format("it is given another one in {} s",
                                       absl::ToInt64Seconds(absl::Ceil(left, absl::Seconds(1))))
                         : std::string("it is given another one now"));
}

}  // namespace nerf
