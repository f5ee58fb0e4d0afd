#include "server/queue/leases/worker_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace nerf {

void WorkerHealth::EngineDied(const std::string& worker, const ResourceKey& job, SteadyTime now) {
  Record& record = records_[worker];
  record.died_on.insert(job);
  const auto n_of_project =
      std::count_if(record.died_on.begin(), record.died_on.end(),
                    [&](const ResourceKey& other) { return other.project == job.project; });
  const auto lengthen = [&](const std::string& project) {
    Pause& pause = record.pauses[project];
    pause.length = std::clamp(2 * pause.length, kFirstPause, kMaxPause);
    pause.until = now + pause.length;
  };
  if (static_cast<size_t>(n_of_project) >= kMaxJobs || record.pauses.contains(job.project)) {
    lengthen(job.project);
  }
  if (record.pauses.size() >= kMaxProjects) lengthen(kAll);
}

bool WorkerHealth::IsPaused(const std::string& worker, const std::string& project) const {
  const auto found = records_.find(worker);
  return found != records_.end() && found->second.pauses.contains(project);
}

std::set<std::string> WorkerHealth::Avoids(const std::string& worker) const {
  std::set<std::string> projects;
  const auto found = records_.find(worker);
  if (found == records_.end()) return projects;
  for (const auto& [project, pause] : found->second.pauses) projects.insert(project);
  projects.erase(kAll);
  return projects;
}

bool WorkerHealth::MayTakeJob(const std::string& worker, const std::string& project,
                              SteadyTime now) const {
  const auto is_over = [&](const std::string& of) {
    return !IsPaused(worker, of) || now >= records_.at(worker).pauses.at(of).until;
  };
  return is_over(kAll) && is_over(project);
}

std::string WorkerHealth::Explain(const std::string& worker, SteadyTime now) const {
  const auto found = records_.find(worker);
  if (found == records_.end() || found->second.pauses.empty()) return "";
  const auto& [died_on, pauses] = found->second;
  constexpr size_t kMaxNames = 3;
  const bool is_one = !pauses.contains(kAll);
  std::vector<std::string> names;
  for (const ResourceKey& job : died_on) {
    if (!is_one || pauses.contains(job.project)) names.push_back(job.id);
  }
  const size_t n = names.size();
  names.resize(std::min(n, kMaxNames));
  const absl::Duration left = pauses.begin()->second.until - now;
  return fmt::format(
      "its engine died on {} jobs {}in a row ({}{}); it is given another one{} {}", n,
      is_one ? "of a project " : "", fmt::join(names, ", "), n > kMaxNames ? ", ..." : "",
      is_one ? " of that project" : "",
      left > absl::ZeroDuration()
          ? fmt::format("in {} s", absl::ToInt64Seconds(absl::Ceil(left, absl::Seconds(1))))
          : std::string("now"));
}

}  // namespace nerf
