#include "server/queue/upkeep/resource_retention.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"

namespace nerf {
namespace {

constexpr size_t kResourcesPerLock = 1000;  // records read per acquisition of the lock
constexpr size_t kBatch = 100;              // jobs deleted per commit

// The keys of a map of resources that `wanted` holds for, read in slices.
template <typename Records, typename Wanted>
std::vector<ResourceKey> KeysOf(QueueState& state, const Records& (QueueState::*records)() const,
                                Wanted wanted) {
  std::vector<ResourceKey> keys;
  ResourceKey from;
  bool more = true;
  while (more) {
    MutexLock lock(state.mu);
    const Records& all = (state.*records)();
    auto it = all.upper_bound(from);
    for (size_t n = 0; n < kResourcesPerLock && it != all.end(); ++n, ++it) {
      from = it->first;
      if (wanted(*it)) keys.push_back(it->first);
    }
    more = it != all.end();
  }
  return keys;
}

// A resource that was deleted meanwhile, or that somebody has begun to use, is left alone.
absl::Status UnlessBusy(const absl::Status& status) {
  const bool busy = absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
  return busy ? absl::OkStatus() : status;
}

}  // namespace

ResourceRetention::ResourceRetention(QueueState* state, JobQueue* queue, SceneCatalog* scenes,
                                     ModelCatalog* models, OnModelDeleted on_model_deleted)
    : state_(*state),
      queue_(*queue),
      scenes_(*scenes),
      models_(*models),
      on_model_deleted_(std::move(on_model_deleted)) {}

absl::Status ResourceRetention::Sweep() {
  std::map<std::string, std::vector<EndedJob>> ended;
  std::set<ResourceKey> used;
  ReadJobs(&ended, &used);
  for (auto& [project, jobs] : ended) {
    NERF_RETURN_IF_ERROR(DeleteJobs(project, std::move(jobs)));
  }
  NERF_RETURN_IF_ERROR(DeleteScenes(used));
  return DeleteModels();
}

void ResourceRetention::ReadJobs(std::map<std::string, std::vector<EndedJob>>* ended,
                                 std::set<ResourceKey>* used) {
  KeysOf(state_, &QueueState::jobs, [&](const auto& item) {
    const Job& job = item.second.job;
    if (!SceneReadBy(job).empty()) used->insert({job.key.project, SceneReadBy(job)});
    // Parts are deleted with the job that they are of.
    if (IsFinal(job.state) && job.part_of.empty()) {
      (*ended)[job.key.project].push_back({job.end_age, job.create_sequence, job.key});
    }
    return false;
  });
  MutexLock lock(state_.mu);
  for (const auto& [key, job] : state_.jobs_in_creation()) {
    used->insert({key.project, SceneReadBy(job)});
  }
}

ProjectRetention ResourceRetention::RetentionOf(const std::string& project) {
  MutexLock lock(state_.mu);
  const ProjectRecord* const found = state_.FindProject(project);
  return found == nullptr ? ProjectRetention() : found->retention;
}

absl::Status ResourceRetention::DeleteJobs(const std::string& project,
                                           std::vector<EndedJob> ended) {
  const ProjectRetention kept = RetentionOf(project);
  const size_t most =
      kept.max_ended_jobs > 0 ? kept.max_ended_jobs : ProjectRetention::kDefaultMaxEndedJobs;
  std::sort(ended.begin(), ended.end(), [](const EndedJob& a, const EndedJob& b) {
    return std::tie(a.end_age, a.create_sequence) < std::tie(b.end_age, b.create_sequence);
  });
  const size_t n_over = ended.size() > most ? ended.size() - most : 0;
  const absl::Time now = state_.Age();
  std::vector<ResourceKey> keys;
  for (size_t i = 0; i < ended.size(); ++i) {
    if (i < n_over || now - ended[i].end_age >= kept.ended_job_age) keys.push_back(ended[i].key);
  }
  size_t n_deleted = 0;
  for (size_t begin = 0; begin < keys.size(); begin += kBatch) {
    const size_t n = std::min(kBatch, keys.size() - begin);
    NERF_ASSIGN_OR_RETURN(const size_t deleted, queue_.DeleteEnded({keys.data() + begin, n}));
    n_deleted += deleted;
  }
  if (n_deleted > 0) LogInfo("ended jobs deleted", {{"project", project}, {"jobs", n_deleted}});
  return absl::OkStatus();
}

absl::Status ResourceRetention::DeleteScenes(const std::set<ResourceKey>& used) {
  const SteadyTime now = state_.clock.Now();
  std::map<ResourceKey, SteadyTime> unused;
  for (ResourceKey& key : KeysOf(state_, &QueueState::scenes,
                                 [&](const auto& item) { return !used.contains(item.first); })) {
    const auto since = unused_since_.find(key);
    unused.emplace(std::move(key), since == unused_since_.end() ? now : since->second);
  }
  unused_since_ = std::move(unused);
  for (const auto& [key, since] : unused_since_) {
    if (now - since < RetentionOf(key.project).unused_scene_age) continue;
    NERF_RETURN_IF_ERROR(UnlessBusy(scenes_.Delete(key)));
  }
  return absl::OkStatus();
}

absl::Status ResourceRetention::DeleteModels() {
  const absl::Time now = state_.Age();
  std::map<std::string, absl::Duration> ages;  // of projects that do not keep models for ever
  {
    MutexLock lock(state_.mu);
    for (const auto& [project, record] : state_.projects()) {
      const absl::Duration age = record.retention.model_age;
      if (age != absl::InfiniteDuration()) ages.emplace(project, age);
    }
  }
  if (ages.empty()) return absl::OkStatus();
  const std::vector<ResourceKey> old = KeysOf(state_, &QueueState::models, [&](const auto& item) {
    const auto age = ages.find(item.first.project);
    return age != ages.end() && now - item.second.create_age >= age->second;
  });
  for (const ResourceKey& key : old) {
    const absl::Status deleted = models_.Delete(key);
    if (deleted.ok() && on_model_deleted_) on_model_deleted_(key);
    NERF_RETURN_IF_ERROR(UnlessBusy(deleted));
  }
  return absl::OkStatus();
}

}  // namespace nerf
