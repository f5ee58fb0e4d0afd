// The worker's half of JobQueue: grants, renewals, checkpoints, ends of placements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/queue/job_queue.h"
#include "server/queue/request_check.h"
#include "server/queue/resource_error.h"

namespace nerf {
namespace {

// The epoch is the proof. A holder that was lost keeps its name on the job until the next grant.
bool IsHolder(const Job& job, const LeaseRef& lease) {
  return !job.lease.worker.empty() && job.lease.epoch == lease.epoch &&
         (lease.worker.empty() || lease.worker == job.lease.worker);
}

LeaseOrder OrderFor(JobState state) {
  if (state == JobState::kCancelling) return LeaseOrder::kCancel;
  return state == JobState::kPausing ? LeaseOrder::kPause : LeaseOrder::kTrain;
}

absl::Status CheckCheckpoint(const CheckpointRecord& checkpoint) {
  RequestCheck check;
  check.Require(IsSha256Hex(checkpoint.checkpoint_blob.sha256), "checkpoint_blob.sha256",
                "must be 64 lower-case hexadecimal digits");
  check.Require(IsSha256Hex(checkpoint.model_blob.sha256), "model_blob.sha256",
                "must be 64 lower-case hexadecimal digits");
  check.Require(!checkpoint.preview_psnr.has_value() || std::isfinite(*checkpoint.preview_psnr),
                "psnr", "must be a finite number");
  check.Require(checkpoint.step > 0, "step", "must be above 0");
  return check.Result();
}

}  // namespace

WorkSubscription::WorkSubscription(QueueState* state, std::string worker,
                                   std::shared_ptr<WatchSignal> signal)
    : state_(*state), worker_(std::move(worker)), signal_(std::move(signal)) {}

WorkSubscription::~WorkSubscription() {
  signal_->Disarm();
  MutexLock lock(state_.mu);
  auto [it, end] = state_.work_signals.equal_range(worker_);
  while (it != end && it->second != signal_) ++it;
  if (it != end) state_.work_signals.erase(it);
}

std::unique_ptr<WorkSubscription> JobQueue::SubscribeWork(const std::string& worker,
                                                          std::function<void()> on_work) {
  auto signal = std::make_shared<WatchSignal>(std::move(on_work));
  MutexLock lock(state_.mu);
  state_.work_signals.emplace(worker, signal);
  return std::unique_ptr<WorkSubscription>(
      new WorkSubscription(&state_, worker, std::move(signal)));
}

absl::StatusOr<JobEntry*> JobQueue::FindLeased(const LeaseRef& lease, std::string_view call,
                                               JobState state_if_retaken, PendingSignals& pending) {
  NERF_ASSIGN_OR_RETURN(const auto found, Find(lease.job));
  JobEntry& entry = *found;
  const Job& job = entry.job;
  const bool retaken = job.state == JobState::kQueued;
  if (!IsHolder(job, lease) || !(HoldsLease(job.state) || retaken)) {
    state_.observer.OnFencedWrite(call);
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "stale lease epoch {} of {}, which is {} at {}", lease.epoch,
                          JobName(lease.job), JobStateName(job.state), job.lease.epoch)),
                      reason::kLeaseFenced, {{"current_epoch", std::to_string(job.lease.epoch)}});
  }
  if (retaken) {
    absl::Status status = Move(entry, state_if_retaken, pending);
    if (!status.ok()) return status;
  }
  entry.lease_deadline = state_.clock.Now() + state_.options.lease_ttl;
  return &entry;
}

absl::Status JobQueue::EndPlacement(JobEntry& entry, Job changed, QueueReason reason,
                                    bool keep_holder, PendingSignals& pending) {
  const absl::Time now = state_.clock.WallNow();
  absl::Status status;
  if (changed.state == JobState::kCancelling) {
    status = Transition(changed, JobState::kCancelled, now);
  } else if (changed.state == JobState::kPausing) {
    status = Transition(changed, JobState::kPaused, now);
    changed.lease.worker.clear();
  } else {
    status = Transition(changed, JobState::kQueued, now, reason);
    if (!keep_holder) changed.lease.worker.clear();
  }
  if (!status.ok()) return status;
  return Apply(entry, std::move(changed), JobEventKind::kStateChanged, pending);
}

absl::Status JobQueue::Attach(const std::string& worker, std::span<const LeaseRef> held) {
  PendingSignals pending;
  MutexLock lock(state_.mu);
  const std::set<ResourceKey> leased = state_.leased_jobs;  // EndPlacement changes the original
  for (const ResourceKey& key : leased) {
    JobEntry& entry = state_.jobs.at(key);
    const Job& job = entry.job;
    if (job.lease.worker != worker) continue;
    const bool is_held = std::any_of(held.begin(), held.end(), [&](const LeaseRef& lease) {
      return lease.job == key && lease.epoch == job.lease.epoch;
    });
    if (is_held) continue;
    absl::Status status =
        EndPlacement(entry, job, QueueReason::kWorkerLost, /*keep_holder=*/false, pending);
    if (!status.ok()) return status;
    state_.observer.OnAttemptEnded(entry.job, "lease_expired");
  }
  return absl::OkStatus();
}

void JobQueue::ReleasePreview(const std::optional<BlobRef>& before,
                              const std::optional<BlobRef>& now) {
  if (before.has_value() && before != now) state_.blobs.Release(*before);
}

void JobQueue::ReleaseBlobs(std::span<const CheckpointRecord> checkpoints) {
  for (const CheckpointRecord& checkpoint : checkpoints) {
    state_.blobs.Release(checkpoint.checkpoint_blob);
    state_.blobs.Release(checkpoint.model_blob);
  }
}

LeaseGrant JobQueue::MakeGrant(const JobEntry& entry) {
  LeaseGrant grant;
  grant.lease = {entry.job.key, entry.job.lease.worker, entry.job.lease.epoch};
  grant.job = entry.job;
  grant.scene = state_.scenes.at({entry.job.key.project, entry.job.scene});
  if (!entry.job.checkpoints.empty()) grant.resume = entry.job.checkpoints.back();
  grant.ttl = state_.options.lease_ttl;
  grant.alone = entry.job.crashed_since_checkpoint;
  return grant;
}

absl::StatusOr<std::optional<LeaseGrant>> JobQueue::Acquire(
    const std::string& worker, const std::function<bool(const Job&)>& may_take) {
  RequestCheck check;
  check.RequireId("worker", worker);
  NERF_RETURN_IF_ERROR(check.Result());
  PendingSignals pending;
  MutexLock lock(state_.mu);
  JobEntry* oldest = nullptr;
  for (const auto& [sequence, method] : state_.queued_jobs) {
    JobEntry& queued = state_.jobs.at(state_.job_order.at(sequence));
    if (may_take && !may_take(queued.job)) continue;
    oldest = &queued;
    break;
  }
  if (oldest == nullptr) return std::optional<LeaseGrant>();
  JobEntry& entry = *oldest;
  Job changed = entry.job;
  ++changed.lease.epoch;
  ++changed.attempt;
  changed.lease.worker = worker;
  absl::Status status = Transition(changed, JobState::kPreparing, state_.clock.WallNow());
  if (!status.ok()) return status;
  status = Apply(entry, std::move(changed), JobEventKind::kStateChanged, pending);
  if (!status.ok()) return status;
  entry.lease_deadline = state_.clock.Now() + state_.options.lease_ttl;
  return std::optional(MakeGrant(entry));
}

absl::StatusOr<LeaseOrder> JobQueue::Renew(const LeaseRef& lease, WorkPhase phase) {
  PendingSignals pending;
  MutexLock lock(state_.mu);
  const JobState wanted =
      phase == WorkPhase::kPreparing ? JobState::kPreparing : JobState::kRunning;
  NERF_ASSIGN_OR_RETURN(const auto found, FindLeased(lease, "Renew", wanted, pending));
  JobEntry& entry = *found;
  if (entry.job.state == JobState::kPreparing && wanted == JobState::kRunning) {
    absl::Status status = Move(entry, JobState::kRunning, pending);
    if (!status.ok()) return status;
  }
  return OrderFor(entry.job.state);
}

absl::StatusOr<LeaseOrder> JobQueue::ReportProgress(const LeaseRef& lease,
                                                    const JobProgress& progress) {
  PendingSignals pending;
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto found,
                        FindLeased(lease, "ReportProgress", JobState::kRunning, pending));
  JobEntry& entry = *found;
  if (entry.job.state == JobState::kPreparing) {
    absl::Status status = Move(entry, JobState::kRunning, pending);
    if (!status.ok()) return status;
  }
  const LeaseOrder order = OrderFor(entry.job.state);
  if (entry.job.progress == progress) return order;
  const std::optional<BlobRef> old_preview = entry.job.progress.preview_image;
  const absl::Duration since_stored = state_.clock.Now() - entry.progress_stored_at;
  if (since_stored >= state_.options.progress_store_interval) {
    Job changed = entry.job;
    changed.progress = progress;
    absl::Status status = Apply(entry, std::move(changed), JobEventKind::kProgress, pending);
    if (status.ok()) {
      ReleasePreview(old_preview, progress.preview_image);
      return order;
    }
    // Progress is worth a row, not an error: it stays live and the next report tries again.
  }
  ReleasePreview(old_preview, progress.preview_image);
  entry.job.progress = progress;
  entry.log.SetLiveProgress();
  entry.log.SignalAll(pending);
  return order;
}

absl::StatusOr<CommittedCheckpoint> JobQueue::CommitCheckpoint(const LeaseRef& lease,
                                                               const CheckpointRecord& checkpoint) {
  NERF_RETURN_IF_ERROR(CheckCheckpoint(checkpoint));
  PendingSignals pending;
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto found,
                        FindLeased(lease, "CommitCheckpoint", JobState::kRunning, pending));
  JobEntry& entry = *found;
  for (const CheckpointRecord& earlier : entry.job.checkpoints) {
    if (earlier.step == checkpoint.step && earlier.checkpoint_blob == checkpoint.checkpoint_blob &&
        earlier.model_blob == checkpoint.model_blob) {
      return CommittedCheckpoint{earlier, {}};
    }
  }
  // The newest checkpoint is never retired, so the last one kept is the last one committed.
  if (!entry.job.checkpoints.empty() && checkpoint.step <= entry.job.checkpoints.back().step) {
    return StateConflict(fmt::format("step {} is not above the last checkpoint's, {}",
                                     checkpoint.step, entry.job.checkpoints.back().step));
  }
  absl::Status status = state_.RequireBlobs({checkpoint.checkpoint_blob, checkpoint.model_blob});
  if (!status.ok()) return status;

  CommittedCheckpoint result;
  result.checkpoint = checkpoint;
  result.checkpoint.create_time = state_.clock.WallNow();
  result.checkpoint.promoted = false;
  Job changed = entry.job;
  changed.checkpoints.push_back(result.checkpoint);
  changed.crashes_in_row = 0;
  changed.crashed_since_checkpoint = false;
  if (checkpoint.preview_psnr.has_value()) {
    changed.best_preview_psnr = std::max(
        changed.best_preview_psnr.value_or(*checkpoint.preview_psnr), *checkpoint.preview_psnr);
  }
  result.retired = RetireCheckpoints(changed.checkpoints, state_.options.n_kept_checkpoints);
  status = Apply(entry, std::move(changed), JobEventKind::kCheckpointCommitted, pending,
                 checkpoint.step);
  if (!status.ok()) return status;
  ReleaseBlobs(result.retired);
  LogInfo("checkpoint committed", {{"project", lease.job.project},
                                   {"job", lease.job.id},
                                   {"step", checkpoint.step},
                                   {"retired", result.retired.size()}});
  return result;
}

absl::StatusOr<Job> JobQueue::Finish(const LeaseRef& lease, const JobOutcome& outcome) {
  using Kind = JobOutcome::Kind;
  PendingSignals pending;
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto existing, Find(lease.job));
  // The reply to the first call was lost: the last holder hears it again.
  const Job& job_now = existing->job;
  if (IsFinal(job_now.state) && IsHolder(job_now, lease)) return job_now;

  NERF_ASSIGN_OR_RETURN(const auto found, FindLeased(lease, "Finish", JobState::kRunning, pending));
  JobEntry& entry = *found;
  if (entry.job.state == JobState::kPreparing && outcome.kind == Kind::kSucceeded) {
    absl::Status status = Move(entry, JobState::kRunning, pending);
    if (!status.ok()) return status;
  }
  const JobState state = entry.job.state;
  JobState to = JobState::kFailed;
  std::string_view result = "failed";
  if (outcome.kind != Kind::kFailed) {
    if (state == JobState::kCancelling) {
      to = JobState::kCancelled;
      result = "cancelled";
    } else if (state == JobState::kPausing && outcome.kind != Kind::kCancelled) {
      to = JobState::kPaused;
      result = "preempted";
    } else if (outcome.kind == Kind::kSucceeded) {
      to = JobState::kSucceeded;
      result = "completed";
    } else {
      return StateConflict(fmt::format("{} is {}: nobody asked its worker to stop",
                                       JobName(lease.job), JobStateName(state)));
    }
  }
  const std::optional<BlobRef> old_preview = entry.job.progress.preview_image;
  Job changed = entry.job;
  if (outcome.progress.has_value()) changed.progress = *outcome.progress;
  absl::Status status = Transition(changed, to, state_.clock.WallNow());
  if (!status.ok()) return status;
  std::vector<CheckpointRecord> retired;
  if (to == JobState::kSucceeded) {
    changed.final_psnr = outcome.final_psnr;
    retired = RetireCheckpoints(changed.checkpoints, 1);  // nothing will fall back to earlier ones
  }
  if (to == JobState::kPaused) changed.lease.worker.clear();
  if (to == JobState::kFailed) {
    changed.error = outcome.error;
    if (changed.error.code == absl::StatusCode::kOk)
      changed.error.code = absl::StatusCode::kUnknown;
  }
  status = Apply(entry, std::move(changed), JobEventKind::kStateChanged, pending);
  if (!status.ok()) return status;
  ReleasePreview(old_preview, entry.job.progress.preview_image);
  ReleaseBlobs(retired);
  state_.observer.OnAttemptEnded(entry.job, result);
  return entry.job;
}

absl::StatusOr<Job> JobQueue::Release(const LeaseRef& lease) {
  PendingSignals pending;
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto found,
                        FindLeased(lease, "Release", JobState::kRunning, pending));
  JobEntry& entry = *found;
  absl::Status status = EndPlacement(entry, entry.job, QueueReason::kWorkerDrained,
                                     /*keep_holder=*/false, pending);
  if (!status.ok()) return status;
  state_.observer.OnAttemptEnded(entry.job, "drained");
  return entry.job;
}

absl::StatusOr<Job> JobQueue::ReportEngineCrash(const LeaseRef& lease, std::string_view message,
                                                bool shared_engine) {
  PendingSignals pending;
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto found,
                        FindLeased(lease, "ReportEngineCrash", JobState::kRunning, pending));
  JobEntry& entry = *found;
  Job changed = entry.job;
  if (!shared_engine) ++changed.crashes_in_row;
  changed.crashed_since_checkpoint = true;
  const bool may_go_on =
      changed.crashes_in_row < static_cast<uint32_t>(state_.options.max_attempts) ||
      changed.state == JobState::kCancelling;
  absl::Status status;
  if (may_go_on) {
    status = EndPlacement(entry, std::move(changed), QueueReason::kEngineCrashed,
                          /*keep_holder=*/false, pending);
  } else {
    changed.error.code = absl::StatusCode::kInternal;
    changed.error.reason = std::string(reason::kEngineCrashed);
    changed.error.message =
        fmt::format("the engine died {} times in a row without a new checkpoint; last: {}",
                    changed.crashes_in_row, message);
    changed.error.metadata["crashes"] = std::to_string(changed.crashes_in_row);
    status = Transition(changed, JobState::kFailed, state_.clock.WallNow());
    if (!status.ok()) return status;
    status = Apply(entry, std::move(changed), JobEventKind::kStateChanged, pending);
  }
  if (!status.ok()) return status;
  state_.observer.OnAttemptEnded(entry.job, "engine_crash");
  LogWarning("engine crashed", {{"project", lease.job.project},
                                {"job", lease.job.id},
                                {"worker", lease.worker},
                                {"crashes_in_row", entry.job.crashes_in_row},
                                {"shared_engine", shared_engine},
                                {"message", message}});
  return entry.job;
}

absl::Status JobQueue::Tick() {
  PendingSignals pending;
  MutexLock lock(state_.mu);
  const SteadyTime now = state_.clock.Now();
  absl::Status first_error;
  const std::set<ResourceKey> leased = state_.leased_jobs;  // EndPlacement changes the original
  for (const ResourceKey& key : leased) {
    JobEntry& entry = state_.jobs.at(key);
    if (now < entry.lease_deadline) continue;
    absl::Status status =
        EndPlacement(entry, entry.job, QueueReason::kWorkerLost, /*keep_holder=*/true, pending);
    if (!status.ok()) {
      first_error.Update(status);
      continue;
    }
    state_.observer.OnLeaseExpired(entry.job);
    state_.observer.OnAttemptEnded(entry.job, "lease_expired");
  }

  constexpr absl::Duration kSweepInterval = absl::Hours(1);
  if (now - state_.requests_swept_at >= kSweepInterval) first_error.Update(Sweep());
  return first_error;
}

absl::Status JobQueue::Sweep() {
  const absl::Time now = state_.clock.WallNow();
  StoreWrite write;
  write.forget_requests_before = now - state_.options.request_retention;
  std::vector<JobEntry*> trimmed;
  for (auto& [key, entry] : state_.jobs) {
    // Long enough for every watcher to have heard of the end. The last event stays.
    if (!IsFinal(entry.job.state) || entry.log.size() <= 1 ||
        entry.job.end_time + state_.options.final_events_retention > now) {
      continue;
    }
    write.trimmed_events.emplace_back(key, entry.job.last_event_sequence - 1);
    trimmed.push_back(&entry);
  }
  NERF_RETURN_IF_ERROR(state_.Commit(write));
  std::erase_if(state_.requests, [&](const auto& item) {
    return item.second.create_time < *write.forget_requests_before;
  });
  for (JobEntry* entry : trimmed) entry->log.Trim(1);
  state_.requests_swept_at = state_.clock.Now();
  return absl::OkStatus();
}

}  // namespace nerf
