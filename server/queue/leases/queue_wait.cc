#include "server/queue/leases/queue_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/leases/grant_policy.h"

namespace nerf {
namespace {

bool TakesJobs(const WorkerRecord& worker) {
  return worker.connected &&
         (worker.state == WorkerState::kIdle || worker.state == WorkerState::kBusy);
}

// "j-a, j-b, j-c and 2 more".
std::string FirstOf(const std::vector<std::string_view>& names) {
  constexpr size_t kMaxNames = 3;
  const size_t n = std::min(names.size(), kMaxNames);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + n, ", "));
  if (names.size() > n) text += fmt::format(" and {} more", names.size() - n);
  return text;
}

// Why a job waits that no connected and healthy worker can take.
QueueWait NoWorkerFor(const Job& job, std::span<const WorkerRecord> workers) {
  std::vector<const WorkerDescription*> others;  // which take other jobs
  for (const WorkerRecord& worker : workers) {
    if (TakesJobs(worker)) others.push_back(&worker.description);
  }
  for (const WorkerRecord& worker : workers) {
    const bool is_paused =
        worker.state == WorkerState::kUnhealthy || worker.avoids.contains(job.key.project);
    if (!is_paused || !worker.connected) continue;
    if (!worker.Offers(CapabilityOf(job))) continue;
    return {kWaitWorkersUnhealthy,
            fmt::format("worker {} is unhealthy: {}", worker.description.id, worker.state_message)};
  }
  for (const WorkerRecord& worker : workers) {
    if (!worker.drained || !worker.connected || !others.empty()) continue;
    if (!worker.Offers(CapabilityOf(job))) continue;
    return {kWaitNoWorker, fmt::format("worker {} is drained", worker.description.id)};
  }
  if (!others.empty()) return {kWaitNoCapableWorker, PolicyOf(job).WhyNoWorker(job, others)};
  return {kWaitNoWorker, "no worker is connected"};
}

// Why a gang waits that needs some of the capable workers at once, which have its kind of device;
// nullopt if they are free.
// `where`: what their devices are, for people; may be empty. `alone`: workers with such a device
// that train no gangs.
std::optional<QueueWait> GangWait(const TrainingSpec& training, std::string_view where,
                                  const std::vector<const WorkerRecord*>& capable,
                                  const std::vector<std::string_view>& alone) {
  const size_t n_wanted = training.workers.min;
  std::map<std::string, std::pair<size_t, size_t>> pools;  // of each host and hardware: all, free
  for (const WorkerRecord* worker : capable) {
    const bool is_free = worker->state != WorkerState::kBusy;
    const std::string hardware = GangHardwareOf(worker->description);
    const auto count = [&](const std::string& place) {
      auto& [n_all, n_free] = pools[fmt::format("{}: {}", hardware, place)];
      ++n_all;
      if (is_free) ++n_free;
    };
    count("on " + worker->description.host);
    if (worker->description.Has(kRanksNetworkFeature)) count("by network");
  }
  size_t n_most = 0, n_free = 0;
  for (const auto& [pool, counts] : pools) {
    n_most = std::max(n_most, counts.first);
    if (counts.first >= n_wanted) n_free = std::max(n_free, counts.second);
  }
  if (n_most < n_wanted) {
    std::string message = fmt::format("it needs {}{} that can train together{}; there {} {}",
                                      n_wanted, n_wanted == 1 ? " worker" : " workers", where,
                                      n_most == 1 ? "is" : "are", n_most);
    if (!alone.empty()) {
      message +=
          fmt::format("; {} no libnerf_gloo for that: {}",
                      alone.size() == 1 ? "this worker has" : "these workers have", FirstOf(alone));
    }
    return QueueWait{kWaitNoCapableWorker, std::move(message)};
  }
  if (n_free >= n_wanted) return std::nullopt;
  return QueueWait{kWaitWorkersBusy, fmt::format("it needs {} workers at once, of which {} {} free",
                                                 n_wanted, n_free, n_free == 1 ? "is" : "are")};
}

}  // namespace

std::optional<QueueWait> ExplainWait(const Job& job, std::span<const WorkerRecord> workers,
                                     absl::Duration aside,
                                     const std::function<size_t()>& count_ahead) {
  if (job.state != JobState::kQueued || WaitsForJobs(job)) return std::nullopt;
  if (aside > absl::ZeroDuration()) {
    return QueueWait{kWaitNoRoom,
                     fmt::format("no worker had room for its files; next try in {} s",
                                 absl::ToInt64Seconds(absl::Ceil(aside, absl::Seconds(1))))};
  }
  size_t n_workers = 0;
  std::vector<const WorkerRecord*> capable, untried;
  for (const WorkerRecord& worker : workers) {
    if (worker.job == job.key) return std::nullopt;
    if (!TakesJobs(worker)) continue;
    ++n_workers;
    if (!worker.Offers(CapabilityOf(job)) || worker.avoids.contains(job.key.project)) continue;
    capable.push_back(&worker);
    const auto& crashed_on = job.crashed_on;
    const auto found = std::find(crashed_on.begin(), crashed_on.end(), worker.description.id);
    if (found == crashed_on.end()) untried.push_back(&worker);
  }
  if (capable.empty()) return NoWorkerFor(job, workers);
  // After a crash it waits for a worker on which it has not crashed.
  if (!untried.empty() && !WantsGang(job)) capable = std::move(untried);
  if (WantsGang(job)) {
    const GangDevice device = job.training.gang_device;
    const bool has_cuda = std::any_of(capable.begin(), capable.end(), [](const auto* worker) {
      return GangDeviceOf(worker->description) == GangDevice::kCuda;
    });
    std::vector<std::string_view> alone;
    for (const WorkerRecord* worker : capable) {
      if (LacksGangLibrary(worker->description, device)) alone.push_back(worker->description.id);
    }
    std::erase_if(capable, [&](const WorkerRecord* worker) {
      return GangDeviceOf(worker->description) != device;
    });
    const std::string_view where = device == GangDevice::kCuda ? " on CUDA devices of one kind"
                                   : has_cuda
                                       ? " on CPUs (with cuda_deterministic=1 on CUDA devices)"
                                       : "";
    if (job.training.workers.min > 1 || capable.empty()) {
      return GangWait(job.training, where, capable, alone);
    }
  }
  const size_t n_capable = capable.size();
  std::vector<std::string_view> busy_with;
  for (const WorkerRecord* worker : capable) {
    if (worker->state == WorkerState::kBusy) busy_with.push_back(worker->job->id);
  }
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
