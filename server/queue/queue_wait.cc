#include "server/queue/queue_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "server/queue/grant_policy.h"
#include "server/queue/job_kind.h"

namespace nerf {
namespace {

bool TakesJobs(const WorkerRecord& worker) {
  return worker.connected &&
         (worker.state == WorkerState::kIdle || worker.state == WorkerState::kBusy);
}

QueueWait NoCapableWorker(const std::string& method, std::span<const WorkerRecord> workers) {
  std::set<std::string> methods;
  for (const WorkerRecord& worker : workers) {
    if (!TakesJobs(worker)) continue;
    methods.insert(worker.description.methods.begin(), worker.description.methods.end());
  }
  return {kWaitNoCapableWorker, fmt::format("no connected worker has method {} (there is {})",
                                            method, fmt::join(methods, ", "))};
}

// "j-a, j-b, j-c and 2 more".
std::string FirstOf(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 3;
  const size_t n = std::min(names.size(), kMaxNames);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + n, ", "));
  if (names.size() > n) text += fmt::format(" and {} more", names.size() - n);
  return text;
}

}  // namespace

std::optional<QueueWait> ExplainWait(const Job& job, std::span<const WorkerRecord> workers,
                                     const std::function<size_t()>& count_ahead) {
  if (job.state != JobState::kQueued) return std::nullopt;
  size_t n_workers = 0, n_capable = 0;
  std::vector<std::string> busy_with;
  for (const WorkerRecord& worker : workers) {
    if (worker.job == job.key) return std::nullopt;
    if (!TakesJobs(worker)) continue;
    ++n_workers;
    if (!OffersCapability(worker.description.methods, CapabilityOf(job))) continue;
    ++n_capable;
    if (worker.state == WorkerState::kBusy) busy_with.push_back(worker.job->id);
  }
  if (n_workers == 0) return QueueWait{kWaitNoWorker, "no worker is connected"};
  if (n_capable == 0) return NoCapableWorker(std::string(CapabilityOf(job)), workers);
  if (busy_with.size() < n_capable) return std::nullopt;
  std::string message =
      n_capable == 1 ? fmt::format("the only worker for it is busy with job {}", busy_with[0])
                     : fmt::format("all {} workers for it are busy with jobs {}", n_capable,
                                   FirstOf(busy_with));
  if (n_capable == n_workers) {
    message.erase(message.find(" for it"), std::string_view(" for it").size());
  }
  if (const size_t n_ahead = count_ahead(); n_ahead > 0) {
    message += n_ahead == 1 ? ", and 1 job is ahead of it"
                            : fmt::format(", and {} jobs are ahead of it", n_ahead);
  }
  return QueueWait{kWaitWorkersBusy, std::move(message)};
}

}  // namespace nerf
