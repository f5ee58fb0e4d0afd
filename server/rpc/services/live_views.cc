#include "server/rpc/services/live_views.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace nerf {
namespace {

constexpr char kFeature[] = "views";  // of WorkerHello

absl::Status TooMany(std::string_view what) {
  return WithReason(absl::ResourceExhaustedError(std::string(what)), reason::kQueueFull);
}

bool MayRender(const WorkerRecord& worker, std::string_view feature) {
  return worker.connected && worker.AnswersRequests() && !worker.follows &&
         worker.description.Has(kFeature) && (feature.empty() || worker.description.Has(feature));
}

}  // namespace

absl::StatusOr<std::string> LiveViews::Add(const std::string& project, const std::string& source,
                                           std::weak_ptr<LiveView> view) {
  const std::string name = absl::StrCat(source, "/views/", NewUuid4(random_));
  MutexLock lock(mu_);
  const auto n_open = std::count_if(views_.begin(), views_.end(), [&](const auto& entry) {
    return entry.second.project == project;
  });
  if (static_cast<size_t>(n_open) >= kMaxPerProject) {
    return TooMany(absl::StrCat("the project has ", n_open, " live views open already"));
  }
  views_[name] = Entry{project, std::move(view), "", ""};
  metrics_.SetOpen(views_.size());
  return name;
}

void LiveViews::Remove(const std::string& name) {
  MutexLock lock(mu_);
  views_.erase(name);
  metrics_.SetOpen(views_.size());
}

std::shared_ptr<LiveView> LiveViews::Find(const std::string& name) {
  MutexLock lock(mu_);
  const auto found = views_.find(name);
  return found == views_.end() ? nullptr : found->second.view.lock();
}

LiveViews::Load LiveViews::LoadOf(const std::string& worker, const std::string& except,
                                  const std::string& weights) {
  Load load;
  for (const auto& [name, entry] : views_) {
    if (entry.worker != worker || name == except) continue;
    ++load.n_views;
    load.is_warm = load.is_warm || entry.weights == weights;
  }
  return load;
}

absl::StatusOr<std::string> LiveViews::Assign(const std::string& name,
                                              const std::optional<std::string>& wanted,
                                              const std::string& weights,
                                              std::string_view feature) {
  const WorkerList workers = workers_.List();
  MutexLock lock(mu_);
  const auto found = views_.find(name);
  if (found == views_.end()) return absl::CancelledError("the live view has ended");
  Entry& entry = found->second;
  const std::string kept = wanted.value_or(entry.worker);
  bool is_any_full = false;
  std::optional<std::string> best;
  // In this order: a healthy worker, one that trains nothing, one that has the weights, the fewest
  // views.
  std::tuple<bool, bool, bool, size_t> best_load;
  for (const WorkerRecord& worker : *workers) {
    const std::string& id = worker.description.id;
    if (!MayRender(worker, feature) || (wanted.has_value() && id != *wanted)) continue;
    const Load load = LoadOf(id, name, weights);
    if (load.n_views >= kMaxPerWorker) {
      is_any_full = true;
      continue;
    }
    if (id == kept) {
      best = id;
      break;
    }
    const std::tuple order(worker.state == WorkerState::kUnhealthy, worker.job.has_value(),
                           !load.is_warm, load.n_views);
    if (best.has_value() && best_load <= order) continue;
    best = id;
    best_load = order;
  }
  if (best.has_value()) {
    entry.worker = *best;
    entry.weights = weights;
    return *best;
  }
  if (is_any_full) return TooMany("the workers that could show it have enough live views already");
  return WithReason(absl::UnavailableError(absl::StrCat(
                        "no connected worker can show it in a live view",
                        feature.empty() ? "" : " with its style; older versions do not")),
                    reason::kNoWorker);
}

void LiveViews::Unassign(const std::string& name) {
  MutexLock lock(mu_);
  const auto found = views_.find(name);
  if (found != views_.end()) found->second.worker.clear();
}

}  // namespace nerf
