// The part of LeaseTable about how placements end: reported, handed back, or crashed.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/jobs/stop_cause.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/resources/resource_error.h"

namespace nerf {
namespace {

// The job's state after a placement, and the label under which metrics count the placement.
struct Ending {
  JobState to = JobState::kFailed;
  std::string_view result;
};

// nullopt if the worker stopped without being asked to.
std::optional<Ending> EndingOf(JobState state, JobOutcome::Kind kind) {
  using Kind = JobOutcome::Kind;
  if (kind == Kind::kFailed) return Ending{JobState::kFailed, "failed"};
  if (state == JobState::kCancelling) return Ending{JobState::kCancelled, "cancelled"};
  if (state == JobState::kPausing && kind != Kind::kCancelled) {
    return Ending{JobState::kPaused, "preempted"};
  }
  if (kind == Kind::kSucceeded) return Ending{JobState::kSucceeded, "completed"};
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Job> LeaseTable::Finish(const LeaseRef& lease, const JobOutcome& reported) {
  // Called without the lock, because they read the file system.
  const JobOutcome outcome = WithFilesChecked(reported);
  std::optional<std::vector<JobInput>> lack = LackOf(lease, outcome);
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(const JobEntry* existing, state_.FindUnclaimedJob(lease.job));
  if (TraitsOf(existing->job).has_part_leases) {
    return FinishPart(lease, outcome, std::move(lack));
  }
  // A repeated call, because the reply was lost. Return the same.
  if (IsFinal(existing->job.state) && IsHolder(existing->job, lease)) return existing->job;

  NERF_ASSIGN_OR_RETURN(LeasedChange leased, BeginLeased(lease, "Finish", JobState::kRunning));
  JobEntry& entry = *leased.entry;
  JobChange& change = leased.change;
  Job& job = change.job;
  if (outcome.kind == JobOutcome::Kind::kFailed && !job.checkpoints.empty() &&
      outcome.error.reason == reason::kCheckpointCorrupt) {
    return DropCheckpoint(std::move(leased), outcome.error);
  }
  if (lack.has_value()) return AwaitInputs(std::move(leased), lease.part, *std::move(lack));
  if (job.state == JobState::kPreparing && outcome.kind == JobOutcome::Kind::kSucceeded) {
    NERF_RETURN_IF_ERROR(change.Move(JobState::kRunning));
  }
  const std::optional<Ending> ending = EndingOf(job.state, outcome.kind);
  if (lease.part > 0 && outcome.kind != JobOutcome::Kind::kFailed) {
    return Refuse(std::move(leased),
                  StateConflict(fmt::format("rank 0 alone finishes {}", JobName(lease.job))));
  }
  if (ending.has_value() && ending->to == JobState::kSucceeded) {
    absl::Status taken = PolicyOf(job).TakeResult(outcome, job);
    if (!taken.ok()) return Refuse(std::move(leased), std::move(taken));
  }
  if (!ending.has_value()) {
    return Refuse(std::move(leased),
                  StateConflict(fmt::format("{} is {}: nobody asked its worker to stop",
                                            JobName(lease.job), JobStateName(job.state))));
  }
  std::optional<v1::TrainingPreview> removed_preview;
  if (outcome.progress.has_value() && TraitsOf(job).has_checkpoints) {
    *job.progress.mutable_training() = *outcome.progress;
    removed_preview = NotePreview(*outcome.progress, &job);
  }
  std::vector<CheckpointRecord> retired;
  if (ending->to == JobState::kSucceeded) {
    job.final_psnr = outcome.final_psnr;
    entry.curve.SetTestViews(outcome.test_views);
    retired = RetireCheckpoints(job.checkpoints, 1);  // no attempt will start from earlier ones
  }
  if (ending->to == JobState::kPaused) job.lease.members.clear();
  if (ending->to == JobState::kFailed) {
    job.error = outcome.error;
    if (job.error.code == absl::StatusCode::kOk) job.error.code = absl::StatusCode::kUnknown;
    if (job.lease.IsGang()) {
      job.error.message =
          fmt::format("{}, on {}", outcome.error.message, NameOfMember(job, lease.part));
    }
  }
  NERF_RETURN_IF_ERROR(change.Move(ending->to));
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(change)));
  if (removed_preview.has_value()) state_.blobs.Release(ToBlobRef(removed_preview->image()));
  ReleaseBlobs(retired);
  if (ending->to == JobState::kSucceeded) NoteWorked(lease.worker);
  state_.observer.OnAttemptEnded(entry.job, ending->result);
  return entry.job;
}

JobOutcome LeaseTable::WithFilesChecked(const JobOutcome& outcome) {
  JobOutcome checked = outcome;
  std::vector<BlobRef> needed;
  if (outcome.exported.has_value()) {
    for (const v1::ExportFile& file : outcome.exported->files())
      needed.push_back(ToBlobRef(file.blob()));
  }
  if (needed.empty() || state_.RequireBlobs(needed).ok()) return checked;
  checked.exported.reset();
  checked.kind = JobOutcome::Kind::kFailed;
  checked.error.code = absl::StatusCode::kDataLoss;
  checked.error.reason = std::string(reason::kBlobsMissing);
  checked.error.message = "the files that the worker made are not on the server: export again";
  return checked;
}

absl::StatusOr<Job> LeaseTable::DropCheckpoint(LeasedChange leased, const JobError& error) {
  Job& job = leased.change.job;
  const CheckpointRecord dropped = job.checkpoints.back();
  job.checkpoints.pop_back();
  NERF_RETURN_IF_ERROR(
      EndPlacement(leased.change, QueueReason::kCheckpointCorrupt, /*keep_holder=*/false));
  NERF_RETURN_IF_ERROR(state_.Apply(*leased.entry, std::move(leased.change)));
  ReleaseBlobs({&dropped, 1});
  const Job& now = leased.entry->job;
  state_.observer.OnAttemptEnded(now, "checkpoint_corrupt");
  LogWarning("dropped a damaged checkpoint", {{"project", now.key.project},
                                              {"job", now.key.id},
                                              {"step", dropped.step},
                                              {"checkpoints_left", now.checkpoints.size()},
                                              {"message", error.message}});
  return now;
}

absl::Status LeaseTable::ApplyRelease(LeasedChange leased, const JobEntry::Aside& before) {
  JobEntry& entry = *leased.entry;
  const absl::Status stored = state_.Apply(entry, std::move(leased.change));
  if (!stored.ok()) entry.aside = before;
  return stored;
}

absl::StatusOr<bool> LeaseTable::FailsWithoutDay(LeasedChange& leased) {
  Job& job = leased.change.job;
  if (!TraitsOf(job).starts_over || job.stop != StopCause::kQuota ||
      ++leased.entry->n_quota_stops < kMaxQuotaStops)
    return false;
  job.error.code = absl::StatusCode::kResourceExhausted;
  job.error.reason = std::string(reason::kQuotaExceeded);
  job.error.message =
      "it needs more of its project's max_device_seconds_per_day than a day has, and cannot go on "
      "where it stopped";
  NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kFailed));
  return true;
}

absl::StatusOr<bool> LeaseTable::FailsWithoutRoom(LeasedChange& leased, const std::string& worker,
                                                  std::string_view why) {
  // Before it is queued: whoever is woken by that sees that it waits aside.
  PutAside(*leased.entry, worker);
  Job& job = leased.change.job;
  const int n_rounds = leased.entry->aside.n_rounds;
  const bool is_wanted = job.state != JobState::kCancelling && job.stop == StopCause::kNone;
  if (TraitsOf(job).waits_for_room || n_rounds < kMaxNoRoomRounds || !is_wanted) return false;
  job.error.code = absl::StatusCode::kResourceExhausted;
  job.error.reason = std::string(QueueReasonName(QueueReason::kNoRoom));
  job.error.message = fmt::format("no worker had room for it on its disk, {} times in a row{}{}",
                                  n_rounds, why.empty() ? "" : "; last: ", why);
  NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kFailed));
  return true;
}

absl::StatusOr<Job> LeaseTable::Release(const LeaseRef& lease, QueueReason reason,
                                        std::optional<uint32_t> lost_rank, std::string_view why) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(LeasedChange leased, BeginLeased(lease, "Release", JobState::kRunning));
  const Job& before = leased.entry->job;
  const bool is_gang = IsGang(before);
  if (is_gang && reason == QueueReason::kWorkerLost) {
    return ReleaseBrokenGang(std::move(leased), lease.part, lost_rank);
  }
  const std::string worker(PolicyOf(before).LeaseOf(before, lease.part).worker);
  const StopCause stop = leased.change.job.stop;
  const bool no_room = reason == QueueReason::kNoRoom;
  const JobEntry::Aside aside = leased.entry->aside;
  NERF_ASSIGN_OR_RETURN(bool fails, FailsWithoutDay(leased));
  if (no_room && !fails) {
    NERF_ASSIGN_OR_RETURN(fails, FailsWithoutRoom(leased, worker, why));
  }
  if (!fails) {
    NERF_RETURN_IF_ERROR(
        EndLease(leased.change, lease.part, reason, /*keep_holder=*/false,
                 is_gang ? NameOfMember(leased.change.job, lease.part) + " gave the job back"
                         : std::string(why)));
  }
  if (stop == StopCause::kPreempted) {
    for (const std::string& kept : leased.entry->kept_workers) {
      state_.ReserveWorker(kept, leased.entry->preempted_for);
    }
  }
  JobEntry& entry = *leased.entry;
  NERF_RETURN_IF_ERROR(ApplyRelease(std::move(leased), aside));
  state_.observer.OnAttemptEnded(entry.job, no_room ? "no_room" : ResultOf(stop));
  return entry.job;
}

absl::StatusOr<Job> LeaseTable::ReportEngineCrash(const LeaseRef& lease, std::string_view message,
                                                  bool shared_engine) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(LeasedChange leased,
                        BeginLeased(lease, "ReportEngineCrash", JobState::kRunning));
  if (TraitsOf(leased.change.job).has_part_leases) {
    return CrashPart(std::move(leased), lease.part, message, shared_engine);
  }
  Job& job = leased.change.job;
  const bool is_gang = job.lease.IsGang();
  const std::string worker = job.lease.members[lease.part];
  if (!shared_engine) {
    ++job.crashes_in_row;
    if (!job.lease.members.empty() &&
        std::find(job.crashed_on.begin(), job.crashed_on.end(), worker) == job.crashed_on.end()) {
      job.crashed_on.push_back(worker);
    }
  }
  job.crashed_since_checkpoint = true;
  const bool may_go_on = job.crashes_in_row < static_cast<uint32_t>(state_.options.max_attempts) ||
                         job.state == JobState::kCancelling;
  if (may_go_on) {
    NERF_RETURN_IF_ERROR(EndPlacement(
        leased.change, QueueReason::kEngineCrashed, /*keep_holder=*/false,
        is_gang ? fmt::format("the engine of {} died: {}", NameOfMember(job, lease.part), message)
                : ""));
  } else {
    job.error.code = absl::StatusCode::kInternal;
    job.error.reason = std::string(reason::kEngineCrashed);
    job.error.message =
        TraitsOf(job).starts_over
            ? fmt::format("{} tries in a row broke down; last: {}", job.crashes_in_row, message)
            : fmt::format("the engine died {} times in a row without a new checkpoint; last: {}",
                          job.crashes_in_row, message);
    job.error.metadata["crashes"] = std::to_string(job.crashes_in_row);
    NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kFailed));
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*leased.entry, std::move(leased.change)));
  const Job& now = leased.entry->job;
  // Of an engine with other work nobody knows what killed it.
  if (workers_ != nullptr && TraitsOf(now).may_blame_worker && !shared_engine) {
    workers_->EngineDied(worker, lease.job);
  }
  state_.observer.OnAttemptEnded(now, "engine_crash");
  LogWarning("engine crashed", {{"project", lease.job.project},
                                {"job", lease.job.id},
                                {"worker", lease.worker},
                                {"crashes_in_row", now.crashes_in_row},
                                {"shared_engine", shared_engine},
                                {"message", message}});
  return now;
}

}  // namespace nerf
