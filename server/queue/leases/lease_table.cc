#include "server/queue/leases/lease_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/logging.h"
#include "common/messages/deterministic_bytes.h"
#include "common/status_macros.h"
#include "server/queue/jobs/stop_cause.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/kinds/render_work.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {
namespace {

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

// Adds what a worker reports to the job's curves and previews. The image of a preview that is no
// longer kept is released.
void NoteProgress(QueueState& state, JobEntry& entry, const v1::Progress& progress)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu) {
  if (const auto point = PointOf(progress); point.has_value()) entry.curve.Add(*point);
  const std::optional<v1::TrainingPreview> removed = NotePreview(progress, &entry.job);
  if (removed.has_value() && !AreEqual(progress.preview_image(), removed->image())) {
    state.blobs.Release(ToBlobRef(removed->image()));
  }
}

}  // namespace

bool IsHolder(const Job& job, const LeaseRef& lease) {
  const PartLease last = PolicyOf(job).LeaseOf(job, lease.part);
  return last.epoch == lease.epoch && !last.worker.empty() &&
         (lease.worker.empty() || last.worker == lease.worker);
}

bool IsLeaseOver(const Job& job, const LeaseRef& lease) {
  if (TraitsOf(job).has_part_leases || job.lease.epoch != lease.epoch || !IsFinal(job.state)) {
    return !IsHolder(job, lease);
  }
  return lease.part > 0;  // rank 0 has reported the end itself
}

LeaseOrder OrderFor(const Job& job) {
  if (job.state == JobState::kPausing) return LeaseOrder::kCheckpointAndStop;
  if (job.state != JobState::kCancelling) {
    return job.stop == StopCause::kNone ? LeaseOrder::kTrain : LeaseOrder::kCheckpointAndStop;
  }
  return job.keep_on_cancel ? LeaseOrder::kCheckpointAndStop : LeaseOrder::kCancel;
}

WorkSubscription::WorkSubscription(QueueState* state, std::string worker,
                                   std::shared_ptr<WatchSignal> signal)
    : state_(*state), worker_(std::move(worker)), signal_(std::move(signal)) {}

WorkSubscription::~WorkSubscription() {
  signal_->Disarm();
  MutexLock lock(state_.mu);
  state_.UnsubscribeWork(worker_, signal_);
}

std::unique_ptr<WorkSubscription> LeaseTable::SubscribeWork(const std::string& worker,
                                                            std::function<void()> on_work) {
  auto signal = std::make_shared<WatchSignal>(std::move(on_work));
  MutexLock lock(state_.mu);
  gangs_.askers.erase(worker);  // what it asked for on an earlier connection
  state_.SubscribeWork(worker, signal);
  return std::unique_ptr<WorkSubscription>(
      new WorkSubscription(&state_, worker, std::move(signal)));
}

absl::Status LeaseTable::RequireHolder(const Job& job, const LeaseRef& lease,
                                       std::string_view call) {
  if (IsHolder(job, lease) && (HoldsLease(job.state) || job.state == JobState::kQueued)) {
    return absl::OkStatus();
  }
  state_.observer.OnFencedWrite(call);
  const uint64_t epoch = PolicyOf(job).LeaseOf(job, lease.part).epoch;
  return WithReason(absl::FailedPreconditionError(
                        fmt::format("stale lease epoch {} of {}, which is {} at {}", lease.epoch,
                                    JobName(lease.job), JobStateName(job.state), epoch)),
                    reason::kLeaseFenced, {{"current_epoch", std::to_string(epoch)}});
}

absl::StatusOr<LeaseTable::LeasedChange> LeaseTable::BeginLeased(const LeaseRef& lease,
                                                                 std::string_view call,
                                                                 JobState state_if_retaken) {
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindUnclaimedJob(lease.job));
  NERF_RETURN_IF_ERROR(RequireHolder(entry->job, lease, call));
  state_.RenewLease(lease.key());
  LeasedChange leased{entry, JobChange(*entry, state_.clock.WallNow())};
  if (entry->job.state == JobState::kQueued) {
    NERF_RETURN_IF_ERROR(leased.change.Move(state_if_retaken));
  }
  return leased;
}

absl::Status LeaseTable::Refuse(LeasedChange leased, absl::Status status) {
  state_.ApplyLater(*leased.entry, std::move(leased.change));
  return status;
}

absl::Status LeaseTable::EndPlacement(JobChange& change, QueueReason reason, bool keep_holder,
                                      std::string message) {
  const bool is_gang = change.job.lease.IsGang();
  if (change.job.state == JobState::kCancelling) return change.Move(JobState::kCancelled);
  if (change.job.state == JobState::kPausing) {
    change.job.lease.members.clear();
    return change.Move(JobState::kPaused);
  }
  if (change.job.stop == StopCause::kDeadline) return FailAtEndDeadline(change);
  if (!keep_holder || is_gang) change.job.lease.members.clear();
  if (TraitsOf(change.job).starts_over) {
    change.job.progress.Clear();
    absl::StrAppend(&message, message.empty() ? "" : "; ", "it starts again from the beginning");
  }
  NERF_RETURN_IF_ERROR(change.Move(JobState::kQueued, ReasonOf(change.job.stop, reason)));
  change.job.queue_message = std::move(message);
  return absl::OkStatus();
}

absl::Status LeaseTable::LoseLease(JobChange& change, uint32_t part, bool keep_holder) {
  return EndLease(change, part, QueueReason::kWorkerLost, keep_holder,
                  NameOfMember(change.job, part) + " was lost");
}

absl::Status LeaseTable::EndLease(JobChange& change, uint32_t part, QueueReason reason,
                                  bool keep_holder, std::string message) {
  if (TraitsOf(change.job).has_part_leases) return FreePart(change, part, reason);
  return EndPlacement(change, reason, keep_holder, std::move(message));
}

std::optional<LeaseOrder> LeaseTable::OrderOf(const LeaseRef& lease) const {
  MutexLock lock(state_.mu);
  const absl::StatusOr<JobEntry*> entry = state_.FindJob(lease.job);
  if (!entry.ok()) return LeaseOrder::kTrain;
  if (IsLeaseOver((*entry)->job, lease)) return std::nullopt;
  return OrderFor((*entry)->job);
}

absl::Status LeaseTable::Attach(const std::string& worker, std::span<const LeaseRef> held) {
  QueueLock lock(state_);
  std::vector<LeaseKey> leases;  // ending a placement changes the original
  for (const auto& [lease, deadline] : state_.lease_deadlines()) leases.push_back(lease);
  for (const LeaseKey& lease : leases) {
    state_.AwaitUnclaimed({{ClaimKey::Kind::kJob, lease.job}});
    JobEntry* const found = state_.FindEntry(lease.job);
    if (found == nullptr) continue;  // deleted while others were changed
    JobEntry& entry = *found;
    const Job& job = entry.job;
    const PartLease last = PolicyOf(job).LeaseOf(job, lease.part);
    if (!HoldsLease(job.state) || last.worker != worker) continue;
    const bool is_held = std::any_of(held.begin(), held.end(), [&](const LeaseRef& ref) {
      return ref.key() == lease && ref.epoch == last.epoch;
    });
    if (is_held) continue;
    JobChange change(entry, state_.clock.WallNow());
    NERF_RETURN_IF_ERROR(LoseLease(change, lease.part, /*keep_holder=*/false));
    NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(change)));
    state_.observer.OnAttemptEnded(entry.job, "lease_expired");
  }
  return absl::OkStatus();
}

void LeaseTable::ReleaseBlobs(std::span<const CheckpointRecord> checkpoints) {
  for (const CheckpointRecord& checkpoint : checkpoints) {
    state_.blobs.Release(checkpoint.checkpoint_blob);
    state_.blobs.Release(checkpoint.model_blob);
  }
}

absl::StatusOr<LeaseOrder> LeaseTable::Renew(const LeaseRef& lease, WorkPhase phase) {
  return Heard(lease, "Renew",
               phase == WorkPhase::kPreparing ? JobState::kPreparing : JobState::kRunning, nullptr);
}

absl::StatusOr<LeaseOrder> LeaseTable::ReportProgress(const LeaseRef& lease,
                                                      const internal::JobProgress& progress) {
  return Heard(lease, "ReportProgress", JobState::kRunning, &progress);
}

absl::StatusOr<LeaseOrder> LeaseTable::Heard(const LeaseRef& lease, std::string_view call,
                                             JobState wanted,
                                             const internal::JobProgress* progress) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindJob(lease.job));
  const KindTraits& traits = TraitsOf(entry->job);
  // CommitPoses has ended the job; its holder's report of that is on the way.
  const bool has_scene = traits.makes_scene && entry->job.state == JobState::kSucceeded;
  if (has_scene && IsHolder(entry->job, lease)) return LeaseOrder::kTrain;
  NERF_RETURN_IF_ERROR(RequireHolder(entry->job, lease, call));
  state_.RenewLease(lease.key());
  gangs_.Heard(lease.worker, state_.clock.Now());
  // Orders, moves and progress are rank 0's.
  if (!traits.has_part_leases && lease.part > 0) return LeaseOrder::kTrain;
  if (progress != nullptr && traits.has_budget)
    gangs_.rates.Note(entry->job.training.config.method(), progress->training());
  const LeaseOrder order = OrderFor(entry->job);
  if (progress != nullptr) NoteProgress(state_, *entry, progress->training());
  if (state_.IsClaimed({ClaimKey::Kind::kJob, lease.job})) {
    // Another change of the job is being stored. If the job still has to move afterwards, the next
    // call moves it.
    if (progress != nullptr) state_.ShowProgress(*entry, *progress);
    return order;
  }
  JobChange change(*entry, state_.clock.WallNow());
  const JobState from = entry->job.state;
  if (from == JobState::kQueued || (from == JobState::kPreparing && wanted == JobState::kRunning)) {
    NERF_RETURN_IF_ERROR(change.Move(wanted));
  }
  // Stored progress is only used after a restart, so it may be some seconds old.
  const bool store_progress =
      progress != nullptr && !AreEqual(entry->job.progress, *progress) &&
      state_.clock.Now() - entry->progress_stored_at >= state_.options.progress_store_interval;
  if (!store_progress) {
    if (progress != nullptr) state_.ShowProgress(*entry, *progress);
    state_.ApplyLater(*entry, std::move(change));
    return order;
  }
  change.job.progress = *progress;
  change.Record(JobEventKind::kProgress);
  state_.ApplyLater(*entry, std::move(change),
                    [&state = state_, entry, progress = *progress](const absl::Status& status) {
                      state.mu.AssertHeld();
                      if (!status.ok()) state.ShowProgress(*entry, progress);
                    });
  return order;
}

absl::Status LeaseTable::AddRecentProgress(const LeaseRef& lease,
                                           const std::vector<v1::Progress>& recent) {
  std::vector<v1::TrainingMetrics> points;
  for (const v1::Progress& progress : recent) {
    if (const auto point = PointOf(progress); point.has_value()) points.push_back(*point);
  }
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindJob(lease.job));
  NERF_RETURN_IF_ERROR(RequireHolder(entry->job, lease, "AddRecentProgress"));
  entry->curve.AddMissing(points);
  return absl::OkStatus();
}

absl::StatusOr<CommittedCheckpoint> LeaseTable::CommitCheckpoint(
    const LeaseRef& lease, const CheckpointRecord& checkpoint) {
  NERF_RETURN_IF_ERROR(CheckCheckpoint(checkpoint));
  // Called without the lock, because it reads the file system. Present blobs are not collected
  // meanwhile (BlobIndex).
  absl::Status present = state_.RequireBlobs({checkpoint.checkpoint_blob, checkpoint.model_blob});
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(LeasedChange leased,
                        BeginLeased(lease, "CommitCheckpoint", JobState::kRunning));
  JobEntry& entry = *leased.entry;
  absl::Status can =
      RequireKind(entry.job, TraitsOf(entry.job).has_checkpoints, "commits no checkpoints");
  if (!can.ok()) return Refuse(std::move(leased), std::move(can));
  for (const CheckpointRecord& earlier : entry.job.checkpoints) {
    if (earlier.step == checkpoint.step && earlier.checkpoint_blob == checkpoint.checkpoint_blob &&
        earlier.model_blob == checkpoint.model_blob) {
      state_.ApplyLater(entry, std::move(leased.change));
      return CommittedCheckpoint{earlier, {}};
    }
  }
  // The newest checkpoint is never retired, so the last one kept is the last one committed.
  if (!entry.job.checkpoints.empty() && checkpoint.step <= entry.job.checkpoints.back().step) {
    return Refuse(std::move(leased),
                  StateConflict(fmt::format("step {} is not above the last checkpoint's, {}",
                                            checkpoint.step, entry.job.checkpoints.back().step)));
  }
  if (!present.ok()) return Refuse(std::move(leased), std::move(present));

  CommittedCheckpoint result;
  result.checkpoint = checkpoint;
  result.checkpoint.create_time = state_.clock.WallNow();
  result.checkpoint.promoted = false;
  Job& job = leased.change.job;
  job.checkpoints.push_back(result.checkpoint);
  job.crashes_in_row = 0;
  job.crashed_since_checkpoint = false;
  job.crashed_on.clear();
  entry.aside.no_room_on.clear();
  entry.aside.n_rounds = 0;
  if (checkpoint.preview_psnr.has_value()) {
    job.best_preview_psnr = std::max(job.best_preview_psnr.value_or(*checkpoint.preview_psnr),
                                     *checkpoint.preview_psnr);
  }
  result.retired = RetireCheckpoints(job.checkpoints, state_.options.n_kept_checkpoints);
  leased.change.Record(JobEventKind::kCheckpointCommitted, checkpoint.step);
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(leased.change)));
  ReleaseBlobs(result.retired);
  for (const std::string& member : entry.job.lease.members) NoteWorked(member);
  LogInfo("checkpoint committed", {{"project", lease.job.project},
                                   {"job", lease.job.id},
                                   {"step", checkpoint.step},
                                   {"retired", result.retired.size()}});
  return result;
}

void LeaseTable::ExpireLeases() {
  LookForInputs();
  QueueLock lock(state_);
  SweepGangs();
  const SteadyTime now = state_.clock.Now();
  state_.EndAsides();
  std::vector<LeaseKey> expired;  // ending a placement changes the original
  for (const auto& [lease, deadline] : state_.lease_deadlines()) {
    if (now >= deadline && !state_.IsClaimed({ClaimKey::Kind::kJob, lease.job})) {
      expired.push_back(lease);
    }
  }
  for (const LeaseKey& lease : expired) {
    // Another part of the same job has just expired: the next call ends this one.
    if (state_.IsClaimed({ClaimKey::Kind::kJob, lease.job})) continue;
    JobEntry& entry = state_.EntryOf(lease.job);
    JobChange change(entry, state_.clock.WallNow());
    const absl::Status ended = LoseLease(change, lease.part, /*keep_holder=*/true);
    if (!ended.ok()) {
      LogError("a lease cannot expire", {{"error", ended.ToString()}});
      continue;
    }
    state_.ApplyLater(entry, std::move(change),
                      [&state = state_, &entry](const absl::Status& status) {
                        state.mu.AssertHeld();
                        if (!status.ok()) return;
                        state.observer.OnLeaseExpired(entry.job);
                        state.observer.OnAttemptEnded(entry.job, "lease_expired");
                      });
  }
}

}  // namespace nerf
