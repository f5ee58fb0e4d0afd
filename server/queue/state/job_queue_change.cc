#include "server/queue/state/job_queue.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/part_jobs.h"
#include "server/queue/state/pose_jobs.h"

namespace nerf {
namespace {

absl::Status WrongState(const Job& job) {
  return StateConflict(fmt::format("{} is {}", JobName(job.key), JobStateName(job.state)),
                       {{"state", std::string(JobStateName(job.state))}});
}

}  // namespace

absl::StatusOr<JobEntry*> JobQueue::FindChangeable(const ResourceKey& key) {
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindUnclaimedJob(key));
  NERF_RETURN_IF_ERROR(CheckNoPart(state_, entry->job));
  return entry;
}

absl::StatusOr<Job> JobQueue::ChangeState(const ResourceKey& key, std::string_view cannot,
                                          const TargetState& target) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key));
  NERF_RETURN_IF_ERROR(RequireKind(entry->job, TraitsOf(entry->job).has_checkpoints, cannot));
  const JobState from = entry->job.state;
  const std::optional<JobState> to = target(from);
  if (!to.has_value()) return WrongState(entry->job);
  if (*to == from) return entry->job;
  JobChange change(*entry, state_.clock.WallNow());
  NERF_RETURN_IF_ERROR(change.Move(*to));
  // Its worker was told to stop and does; the job is then queued.
  if (from == JobState::kPausing && *to == JobState::kPreparing &&
      entry->job.stop == StopCause::kNone) {
    state_.RequestStop(*entry, StopCause::kResumed);
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::Cancel(const ResourceKey& key, bool keep_checkpoint) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key));
  const KindTraits& kind = TraitsOf(entry->job);
  NERF_RETURN_IF_ERROR(RequireKind(entry->job, kind.has_checkpoints || !keep_checkpoint,
                                   "has no checkpoint to keep"));
  const JobState from = entry->job.state;
  if (from == JobState::kCancelled) return entry->job;
  if (IsFinal(from)) return WrongState(entry->job);
  const bool cancelling = from == JobState::kCancelling;
  if (cancelling && entry->job.keep_on_cancel == keep_checkpoint) return entry->job;
  JobChange change(*entry, state_.clock.WallNow());
  change.job.keep_on_cancel = keep_checkpoint && HoldsLease(from);
  if (cancelling) {
    change.Record(JobEventKind::kStateChanged);  // wakes the worker
  } else {
    if (HoldsLease(from)) NERF_RETURN_IF_ERROR(change.Move(JobState::kCancelling));
    const bool is_held = kind.has_part_leases ? IsAnyPartHeld(change.job) : HoldsLease(from);
    if (!is_held) NERF_RETURN_IF_ERROR(change.Move(JobState::kCancelled));
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::Update(const ResourceKey& key, const JobUpdate& update) {
  NERF_ASSIGN_OR_RETURN(Job whole, Get(key));
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key));
  if (entry->job.create_sequence != whole.create_sequence) return ResourceNotFound(JobName(key));
  const std::string etag = EtagOf(entry->job);
  if (!update.etag.empty() && update.etag != etag) {
    return WithReason(absl::AbortedError(fmt::format("{} has changed: its etag is {}, not {}",
                                                     JobName(key), etag, update.etag)),
                      reason::kEtagMismatch, {{"etag", etag}});
  }
  JobChange change(*entry, state_.clock.WallNow());
  Job& job = change.job;
  // The store gets the job whole: also files that are left there since its end.
  if (job.pose.n_stored_files > 0) job.pose = std::move(whole.pose);
  if (update.display_name.has_value()) job.display_name = *update.display_name;
  if (update.priority.has_value()) job.priority = *update.priority;
  if (update.crop.has_value()) job.crop = *update.crop;
  if (update.labels.has_value()) job.labels = *update.labels;
  job.start_by = update.start_by.value_or(job.start_by);
  job.end_by = update.end_by.value_or(job.end_by);
  for (const auto& [label, value] : update.some_labels) {
    if (value.has_value()) {
      job.labels[label] = *value;
    } else {
      job.labels.erase(label);
    }
  }
  RequestCheck check;
  check.RequireDisplayName("job.display_name", job.display_name);
  check.Add(CheckPriority("job.priority", job.priority));
  check.Add(CheckLabels("job.labels", job.labels));
  check.Require(!update.crop.has_value() || TraitsOf(job).has_checkpoints, "job.training.crop",
                "is for training jobs alone");
  const absl::Time now = state_.clock.WallNow();
  if (update.start_by.has_value())
    CheckDeadline("job.start_by_time", job, job.start_by, now, check);
  if (update.end_by.has_value()) CheckDeadline("job.end_by_time", job, job.end_by, now, check);
  NERF_RETURN_IF_ERROR(check.Result());
  if (EtagOf(job) == etag) return entry->job;
  change.Record(JobEventKind::kUpdated);
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::Pause(const ResourceKey& key) {
  return ChangeState(key, "cannot be paused", [](JobState from) -> std::optional<JobState> {
    if (from == JobState::kPausing || from == JobState::kPaused) return from;
    if (from == JobState::kQueued) return JobState::kPaused;
    const bool is_at_work = from == JobState::kPreparing || from == JobState::kRunning;
    return is_at_work ? std::optional(JobState::kPausing) : std::nullopt;
  });
}

absl::StatusOr<Job> JobQueue::Resume(const ResourceKey& key) {
  return ChangeState(key, "is never paused", [](JobState from) -> std::optional<JobState> {
    if (from == JobState::kPaused) return JobState::kQueued;
    if (from == JobState::kPausing) return JobState::kPreparing;
    const bool goes_on =
        from == JobState::kQueued || from == JobState::kPreparing || from == JobState::kRunning;
    return goes_on ? std::optional(from) : std::nullopt;
  });
}

absl::Status JobQueue::Delete(const ResourceKey& key) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key));
  if (TraitsOf(entry->job).makes_scene && IsFinal(entry->job.state)) {
    NERF_RETURN_IF_ERROR(ReleaseTrainings(state_, key));
    NERF_ASSIGN_OR_RETURN(entry, FindChangeable(key));  // the lock was free
  }
  std::vector<ClaimKey> claims = {{ClaimKey::Kind::kJob, key}};
  for (const std::string& part : entry->job.parts)
    claims.push_back({ClaimKey::Kind::kJob, {key.project, part}});
  state_.AwaitUnclaimed(claims);
  NERF_ASSIGN_OR_RETURN(entry, state_.FindJob(key));  // the lock was free
  std::vector<JobEntry*> deleted = PartsOfJob(state_, entry->job);
  deleted.insert(deleted.begin(), entry);
  for (const JobEntry* each : deleted) {
    const Job& job = each->job;
    if (IsFinal(job.state)) continue;
    return StateConflict(each == entry ? fmt::format("{} is {}; cancel it first", JobName(key),
                                                     JobStateName(job.state))
                                       : fmt::format("{}, a part of it, is still {}",
                                                     JobName(job.key), JobStateName(job.state)),
                         {{"state", std::string(JobStateName(job.state))}});
  }
  std::vector<ResourceKey> keys;
  for (const JobEntry* each : deleted) keys.push_back(each->job.key);
  NERF_RETURN_IF_ERROR(DeleteJobs(keys));
  LogInfo("job deleted", {{"project", key.project}, {"job", key.id}});
  return absl::OkStatus();
}

absl::Status JobQueue::DeleteJobs(const std::vector<ResourceKey>& keys) {
  StoreWrite write;
  std::vector<ClaimKey> claimed;
  for (const ResourceKey& key : keys) {
    const Job& job = state_.EntryOf(key).job;
    write.deleted_jobs.push_back(key);
    write.trimmed_events.emplace_back(key, job.last_event_sequence);
    write.new_requests.push_back(RequestLog::RecordOfDeletedJob(job, state_.Age()));
    claimed.push_back({ClaimKey::Kind::kJob, key});
  }
  const std::vector<RequestRecord> remembered = write.new_requests;
  Claim claim(state_, std::move(claimed));
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  for (const RequestRecord& record : remembered) state_.requests().Remember(record);
  for (const ResourceKey& key : keys) {
    JobEntry& entry = state_.EntryOf(key);
    for (const BlobRef& blob : BlobsOf(entry.job)) state_.blobs.Release(blob);
    state_.RemoveJob(entry);
  }
  return absl::OkStatus();
}

std::vector<ResourceKey> JobQueue::Deletable(const Job& job) {
  if (!CheckNoPart(state_, job).ok() || TrainingAwaiting(state_, job.key).has_value()) return {};
  std::vector<JobEntry*> all = PartsOfJob(state_, job);
  all.push_back(&state_.EntryOf(job.key));
  std::vector<ResourceKey> keys;
  for (const JobEntry* each : all) {
    const ResourceKey& key = each->job.key;
    if (!IsFinal(each->job.state) || state_.IsClaimed({ClaimKey::Kind::kJob, key})) return {};
    keys.push_back(key);
  }
  return keys;
}

absl::StatusOr<size_t> JobQueue::DeleteEnded(std::span<const ResourceKey> keys) {
  QueueLock lock(state_);
  std::set<ResourceKey> deleted;
  for (const ResourceKey& key : keys) {
    const JobEntry* const found = state_.FindEntry(key);
    if (found == nullptr) continue;
    for (ResourceKey& each : Deletable(found->job)) deleted.insert(std::move(each));
  }
  if (deleted.empty()) return 0;
  NERF_RETURN_IF_ERROR(DeleteJobs({deleted.begin(), deleted.end()}));
  return deleted.size();
}

}  // namespace nerf
