#include "server/queue/state/job_queue.h"

#include <algorithm>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/part_jobs.h"

namespace nerf {

absl::StatusOr<Job> JobQueue::Get(const ResourceKey& key) {
  Job job;
  {
    MutexLock lock(state_.mu);
    NERF_ASSIGN_OR_RETURN(const JobEntry* entry, state_.FindJob(key));
    job = entry->job;
  }
  if (job.pose.n_stored_files == 0) return job;
  NERF_ASSIGN_OR_RETURN(std::optional<Job> stored, state_.store.LoadJob(key));
  if (!stored.has_value()) return ResourceNotFound(JobName(key));
  job.pose = std::move(stored->pose);
  return job;
}

const KindTraits& JobQueue::TraitsOfJob(const ResourceKey& key) {
  MutexLock lock(state_.mu);
  const JobEntry* const found = state_.FindEntry(key);
  return TraitsOf(found == nullptr ? kDefaultJobKind : found->job.kind);
}

absl::StatusOr<Page<ListedJob>> JobQueue::List(const PageRequest& request,
                                               const JobFilter& filter) {
  // A page token continues the list of one filter.
  const std::string kind = filter.text().empty() ? "jobs" : "jobs:" + filter.text();
  MutexLock lock(state_.mu);
  return ListPage<ListedJob>(
      *state_.token_sealer, kind, request, state_.job_order(), state_.jobs(),
      [&](const auto& entry) {
        state_.mu.AssertHeld();
        return ListedJobOf(state_, entry.job);
      },
      [&](const auto& entry) { return filter.Matches(entry.job); });
}

size_t JobQueue::PartsDone(const Job& job) {
  MutexLock lock(state_.mu);
  const std::vector<JobEntry*> parts = PartsOfJob(state_, job);
  return static_cast<size_t>(std::count_if(parts.begin(), parts.end(), [](const JobEntry* part) {
    return part->job.state == JobState::kSucceeded;
  }));
}

bool JobQueue::IsQueued(const Job& job) {
  MutexLock lock(state_.mu);
  if (state_.index().Waits(job.create_sequence)) return true;
  const JobEntry* const found = state_.FindEntry(job.key);
  if (found == nullptr) return false;
  const Job& now = found->job;
  return now.create_sequence == job.create_sequence && now.state == JobState::kQueued &&
         WaitsForJobs(now);
}

QueuePlace JobQueue::PlaceOf(const Job& job) {
  MutexLock lock(state_.mu);
  return nerf::PlaceOf(state_, job);
}

absl::StatusOr<CheckpointRecord> JobQueue::GetCheckpoint(const ResourceKey& job,
                                                         std::optional<uint32_t> step) {
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const JobEntry* found, state_.FindJob(job));
  NERF_RETURN_IF_ERROR(
      RequireKind(found->job, TraitsOf(found->job).has_checkpoints, "has no checkpoints"));
  const std::vector<CheckpointRecord>& checkpoints = found->job.checkpoints;
  if (!step.has_value()) {
    if (checkpoints.empty()) return NoCheckpoint(JobName(job));
    return checkpoints.back();
  }
  for (const CheckpointRecord& checkpoint : checkpoints) {
    if (checkpoint.step == *step) return checkpoint;
  }
  return ResourceNotFound(CheckpointName(job, *step));
}

absl::StatusOr<v1::ListJobMetricsResponse> JobQueue::GetCurve(const ResourceKey& job) {
  v1::ListJobMetricsResponse curve;
  {
    MutexLock lock(state_.mu);
    NERF_ASSIGN_OR_RETURN(const JobEntry* found, state_.FindJob(job));
    NERF_RETURN_IF_ERROR(
        RequireKind(found->job, TraitsOf(found->job).has_checkpoints, "has no curves"));
    *curve.mutable_previews() = {found->job.previews.begin(), found->job.previews.end()};
    *curve.mutable_points() = found->curve.record().points();
    if (!IsFinal(found->job.state)) return curve;
  }
  NERF_ASSIGN_OR_RETURN(const TrainingCurve stored, state_.store.LoadCurve(job));
  *curve.mutable_points() = stored.record().points();
  *curve.mutable_test_views() = stored.record().test_views();
  return curve;
}

absl::StatusOr<std::unique_ptr<JobListWatcher>> JobQueue::WatchList(JobListRequest request,
                                                                    std::function<void()> on_new) {
  return JobListWatcher::Open(&state_, std::move(request), std::move(on_new));
}

absl::StatusOr<std::unique_ptr<Watcher>> JobQueue::Watch(const ResourceKey& key,
                                                         std::string_view token,
                                                         std::function<void()> on_new) {
  std::optional<WatchPosition> position;
  // Checked before the job is looked up: a job of another store must not be reported as not found.
  if (!token.empty()) {
    NERF_ASSIGN_OR_RETURN(position,
                          ParseWatchToken(*state_.token_sealer, state_.store_epoch, token));
    if (position->job != key) {
      return InvalidFieldsError({{"resume_token", "belongs to another job"}});
    }
  }
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(JobEntry * found, state_.FindJob(key));
  JobEntry& entry = *found;
  const uint64_t last = entry.job.last_event_sequence;
  // The token is ahead of the store, so an older backup was restored.
  if (position.has_value() && position->sequence > last) return ForeignWatchToken();
  auto signal = std::make_shared<WatchSignal>(std::move(on_new));
  state_.SubscribeJob(entry, signal);
  return std::unique_ptr<Watcher>(new Watcher(&state_, key, entry.job.create_sequence,
                                              std::move(signal),
                                              position.has_value() ? position->sequence : last));
}

QueueStats JobQueue::Stats() {
  MutexLock lock(state_.mu);
  QueueStats stats;
  stats.jobs = state_.index().counts();
  stats.jobs_of_kind = state_.index().kind_counts();
  if (const std::optional<SteadyTime> since = state_.index().OldestWait()) {
    stats.oldest_queued_age = state_.clock.Now() - *since;
  }
  stats.n_watchers = state_.n_watchers();
  stats.n_queued = state_.index().n_waiting();
  stats.n_leases = state_.lease_deadlines().size();
  return stats;
}

}  // namespace nerf
