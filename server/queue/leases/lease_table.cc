#include "server/queue/leases/lease_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/logging.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/queue/jobs/render_work.h"
#include "server/queue/jobs/stop_cause.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/part_jobs.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

// True if `lease` names the last grant of the job. A holder whose lease has expired stays recorded,
// and stays the holder, until the next grant.
bool IsHolder(const Job& job, const LeaseRef& lease) {
  if (job.kind != lease.kind) return false;
  if (job.kind == JobKind::kRender) return HoldsPart(job, lease);
  return job.lease.epoch == lease.epoch && IsMember(job, lease.part, lease.worker);
}

// Whether the worker holds the part's lease; of a training job there is one.
bool HoldsIt(const Job& job, uint32_t part, const std::string& worker) {
  if (job.kind != JobKind::kRender) return IsMember(job, part, worker);
  return part < job.render_work.parts.size() && job.render_work.parts[part].worker == worker;
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

// Adds what a worker reports to the job's curves and previews. The image of a preview that is no
// longer kept is released.
void NoteProgress(QueueState& state, JobEntry& entry, const JobProgress& progress)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu) {
  if (const auto point = PointOf(progress); point.has_value()) entry.curve.Add(*point);
  const std::optional<PreviewRecord> removed = NotePreview(progress, &entry.job);
  if (removed.has_value() && progress.preview_image != removed->image) {
    state.blobs.Release(removed->image);
  }
}

// Shows progress to watchers without storing it.
void ShowProgress(QueueState& state, JobEntry& entry, const JobProgress& progress)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu) {
  if (entry.job.progress == progress) return;
  if (progress.preview_image.has_value()) state.NoteReference(*progress.preview_image);
  entry.job.progress = progress;
  entry.log.SetLiveProgress();
  entry.log.SignalAll(state.wake);
  if (entry.job.kind == JobKind::kTraining) state.rows.Changed(entry.job.key, state.wake);
}

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

bool IsLeaseOver(const Job& job, const LeaseRef& lease) {
  if (job.kind == JobKind::kRender) return !HoldsPart(job, lease);
  if (job.lease.epoch != lease.epoch) return true;
  // Rank 0 has reported the end itself.
  if (IsFinal(job.state)) return lease.part > 0;
  return !IsMember(job, lease.part, lease.worker);
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
  auto [it, end] = state_.work_signals.equal_range(worker_);
  while (it != end && it->second != signal_) ++it;
  if (it != end) state_.work_signals.erase(it);
}

std::unique_ptr<WorkSubscription> LeaseTable::SubscribeWork(const std::string& worker,
                                                            std::function<void()> on_work) {
  auto signal = std::make_shared<WatchSignal>(std::move(on_work));
  MutexLock lock(state_.mu);
  gangs_.askers.erase(worker);  // what it asked for on an earlier connection
  state_.work_signals.emplace(worker, signal);
  return std::unique_ptr<WorkSubscription>(
      new WorkSubscription(&state_, worker, std::move(signal)));
}

absl::Status LeaseTable::RequireHolder(const Job& job, const LeaseRef& lease,
                                       std::string_view call) {
  if (IsHolder(job, lease) && (HoldsLease(job.state) || job.state == JobState::kQueued)) {
    return absl::OkStatus();
  }
  state_.observer.OnFencedWrite(call);
  return WithReason(
      absl::FailedPreconditionError(fmt::format("stale lease epoch {} of {}, which is {} at {}",
                                                lease.epoch, JobName(lease.job, lease.kind),
                                                JobStateName(job.state), EpochOf(job, lease.part))),
      reason::kLeaseFenced, {{"current_epoch", std::to_string(EpochOf(job, lease.part))}});
}

void LeaseTable::RenewDeadline(const LeaseKey& lease) {
  const auto found = state_.lease_deadlines.find(lease);
  if (found != state_.lease_deadlines.end()) {
    found->second = state_.clock.Now() + state_.options.lease_ttl;
  }
}

absl::StatusOr<LeaseTable::LeasedChange> LeaseTable::BeginLeased(const LeaseRef& lease,
                                                                 std::string_view call,
                                                                 JobState state_if_retaken) {
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindUnclaimedJob(lease.job, lease.kind));
  NERF_RETURN_IF_ERROR(RequireHolder(entry->job, lease, call));
  RenewDeadline(lease.key());
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
  if (StartsOver(change.job.kind)) {
    change.job.progress = JobProgress();
    absl::StrAppend(&message, message.empty() ? "" : "; ", "it starts again from the beginning");
  }
  NERF_RETURN_IF_ERROR(change.Move(JobState::kQueued, ReasonOf(change.job.stop, reason)));
  change.job.queue_message = std::move(message);
  return absl::OkStatus();
}

absl::Status LeaseTable::EndLease(JobChange& change, uint32_t part, bool keep_holder) {
  return change.job.kind == JobKind::kRender
             ? FreePart(change, part, QueueReason::kWorkerLost)
             : EndPlacement(change, QueueReason::kWorkerLost, keep_holder,
                            NameOfMember(change.job, part) + " was lost");
}

absl::Status LeaseTable::Attach(const std::string& worker, std::span<const LeaseRef> held) {
  QueueLock lock(state_);
  std::vector<LeaseKey> leases;  // ending a placement changes the original
  for (const auto& [lease, deadline] : state_.lease_deadlines) leases.push_back(lease);
  for (const LeaseKey& lease : leases) {
    state_.AwaitUnclaimed({{ClaimKey::Kind::kJob, lease.job}});
    const auto found = state_.jobs.find(lease.job);
    if (found == state_.jobs.end()) continue;  // deleted while others were changed
    JobEntry& entry = found->second;
    const Job& job = entry.job;
    if (!HoldsLease(job.state) || !HoldsIt(job, lease.part, worker)) continue;
    const bool is_held = std::any_of(held.begin(), held.end(), [&](const LeaseRef& ref) {
      return ref.key() == lease && ref.epoch == EpochOf(job, lease.part);
    });
    if (is_held) continue;
    JobChange change(entry, state_.clock.WallNow());
    NERF_RETURN_IF_ERROR(EndLease(change, lease.part, /*keep_holder=*/false));
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

LeaseGrant LeaseTable::MakeGrant(const JobEntry& entry, const std::string& worker) {
  LeaseGrant grant;
  grant.lease = {entry.job.key, worker, entry.job.lease.epoch, 0, entry.job.kind};
  const std::vector<std::string>& members = entry.job.lease.members;
  grant.n_ranks = static_cast<uint32_t>(members.size());
  for (uint32_t rank = 0; rank < grant.n_ranks; ++rank) {
    if (members[rank] == worker) grant.lease.part = rank;
    grant.one_host =
        grant.one_host && gangs_.HostOf(members[rank]) == gangs_.HostOf(members.front());
  }
  grant.job = entry.job;
  if (entry.job.kind == JobKind::kTraining) {
    grant.scene = state_.scenes.at({entry.job.key.project, entry.job.training.scene});
  }
  if (!entry.job.checkpoints.empty()) grant.resume = entry.job.checkpoints.back();
  grant.ttl = state_.options.lease_ttl;
  grant.alone = entry.job.crashed_since_checkpoint;
  return grant;
}

bool LeaseTable::GoesElsewhere(const JobEntry& entry, const std::string& worker) {
  if (workers_ == nullptr) return false;
  const Job& job = entry.job;
  const bool crashed_here =
      std::find(job.crashed_on.begin(), job.crashed_on.end(), worker) != job.crashed_on.end();
  if (!crashed_here && !entry.no_room_on.contains(worker)) return false;
  std::set<std::string> tried = entry.no_room_on;
  tried.insert(job.crashed_on.begin(), job.crashed_on.end());
  if (!workers_->AnotherOffers(CapabilityOf(job), tried)) return false;
  // The others may be busy for long. The last attempt is never made where the job has crashed.
  const bool is_last_attempt =
      job.crashes_in_row + 1 >= static_cast<uint32_t>(state_.options.max_attempts);
  return (crashed_here && is_last_attempt) ||
         state_.clock.Now() - entry.queued_at < kElsewherePause;
}

void LeaseTable::PutAside(JobEntry& entry, const std::string& worker) {
  entry.no_room_on.insert(worker);
  // A gang may need the same worker again, and waits for room in any case.
  const bool is_gang = WantsGang(entry.job);
  if (!is_gang && workers_ != nullptr &&
      workers_->AnotherOffers(CapabilityOf(entry.job), entry.no_room_on)) {
    return;
  }
  if (!is_gang) entry.no_room_on.clear();
  entry.no_room_pause = std::clamp(2 * entry.no_room_pause, kFirstNoRoomPause, kMaxNoRoomPause);
  entry.aside_until = state_.clock.Now() + entry.no_room_pause;
  state_.jobs_aside.emplace(entry.aside_until, entry.job.key);
}

std::optional<LeaseTable::NextJob> LeaseTable::FirstOfProject(const std::string& project,
                                                              const GrantRequest& request,
                                                              std::optional<WaitingGang>* ahead) {
  const SteadyTime now = state_.clock.Now();
  for (const auto& [rank, capability] : state_.queues.at(project)) {
    if (!OffersCapability(request.capabilities, capability)) continue;
    const ResourceKey& key = state_.job_order.at(rank.create_sequence);
    if (state_.IsClaimed({ClaimKey::Kind::kJob, key})) continue;
    JobEntry& entry = state_.jobs.at(key);
    if (now < entry.aside_until || state_.lacking_jobs.contains(key)) continue;
    if (!PartMayStart(state_, entry.job)) continue;
    NextJob next{&entry, std::nullopt};
    if (WantsGang(entry.job)) {
      const std::vector<GangCandidate> candidates = CandidatesFor(entry, request);
      const WorkerCount& wanted = entry.job.training.workers;
      next.gang = ChooseGang(wanted, request.worker, candidates);
      if (!next.gang.has_value()) {
        if (!ahead->has_value()) {
          *ahead = WaitFor(entry, OutlookOf(wanted, request.worker, candidates));
        }
        continue;
      }
    } else if (GoesElsewhere(entry, request.worker)) {
      continue;
    }
    if (ahead->has_value() && !MayStartBefore(**ahead, entry.job)) continue;
    return next;
  }
  return std::nullopt;
}

// Fair shares do not apply: the job takes the place of one of its own project.
JobEntry* LeaseTable::TakeReserved(const GrantRequest& request) {
  const auto reserved = state_.reserved_workers.find(request.worker);
  if (reserved == state_.reserved_workers.end()) return nullptr;
  const auto [job, until] = reserved->second;
  const auto found = state_.jobs.find(job);
  const bool is_claimed = state_.IsClaimed({ClaimKey::Kind::kJob, job});
  const bool may_start = found != state_.jobs.end() && state_.clock.Now() < until && !is_claimed &&
                         found->second.waits && !state_.lacking_jobs.contains(job) &&
                         PartMayStart(state_, found->second.job) &&
                         OffersCapability(request.capabilities, CapabilityOf(found->second.job));
  if (may_start && WantsGang(found->second.job)) return &found->second;  // until all are free
  state_.reserved_workers.erase(reserved);
  return may_start && WhyNoMoreLeases(state_, job.project).empty() ? &found->second : nullptr;
}

std::optional<LeaseTable::NextJob> LeaseTable::NextFor(const GrantRequest& request) {
  if (workers_ != nullptr && !workers_->MayTakeJob(request.worker)) return std::nullopt;
  std::map<std::string, size_t> at_work;
  for (const auto& [project, queue] : state_.queues) at_work[project] = 0;
  for (const auto& [project_and_state, n] : state_.job_counts) {
    const auto found = at_work.find(project_and_state.first);
    if (found != at_work.end() && HoldsLease(project_and_state.second)) found->second += n;
  }
  if (JobEntry* const entry = TakeReserved(request)) {
    if (!WantsGang(entry->job)) return NextJob{entry, std::nullopt};
    std::optional<GangChoice> gang =
        ChooseGang(entry->job.training.workers, request.worker, CandidatesFor(*entry, request));
    const bool may_start = WhyNoMoreLeases(state_, entry->job.key.project).empty();
    if (!gang.has_value() || !may_start) return std::nullopt;
    return NextJob{entry, std::move(gang)};
  }
  std::optional<WaitingGang> ahead;
  for (const std::string& project : fair_share_.Order(at_work)) {
    if (!WhyNoMoreLeases(state_, project).empty()) continue;
    const std::optional<NextJob> next = FirstOfProject(project, request, &ahead);
    if (next.has_value()) return next;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<LeaseGrant>> LeaseTable::Acquire(const GrantRequest& request) {
  RequestCheck check;
  check.RequireId("worker", request.worker);
  NERF_RETURN_IF_ERROR(check.Result());
  QueueLock lock(state_);
  std::optional<LeaseGrant> promised = TakePromised(request.worker);
  if (promised.has_value() || gangs_.promised.contains(request.worker)) return promised;
  NoteAsker(request);
  const std::optional<NextJob> next = NextFor(request);
  if (!next.has_value()) return std::optional<LeaseGrant>();
  JobEntry* const entry = next->entry;
  gangs_.askers[request.worker].waits = false;
  fair_share_.Granted(entry->job.key.project);
  const GrantInProgress counted(state_, entry->job.key.project);
  if (entry->job.kind == JobKind::kRender) return AcquirePart(*entry, request.worker);
  if (next->gang.has_value()) return GrantGang(*entry, request.worker, *next->gang);
  JobChange change(*entry, state_.clock.WallNow());
  ++change.job.lease.epoch;
  ++change.job.attempt;
  change.job.lease.members = {request.worker};
  NERF_RETURN_IF_ERROR(change.Move(JobState::kPreparing));
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return std::optional(MakeGrant(*entry, request.worker));
}

absl::StatusOr<LeaseOrder> LeaseTable::Renew(const LeaseRef& lease, WorkPhase phase) {
  return Heard(lease, "Renew",
               phase == WorkPhase::kPreparing ? JobState::kPreparing : JobState::kRunning, nullptr);
}

absl::StatusOr<LeaseOrder> LeaseTable::ReportProgress(const LeaseRef& lease,
                                                      const JobProgress& progress) {
  return Heard(lease, "ReportProgress", JobState::kRunning, &progress);
}

absl::StatusOr<LeaseOrder> LeaseTable::Heard(const LeaseRef& lease, std::string_view call,
                                             JobState wanted, const JobProgress* progress) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindJob(lease.job, lease.kind));
  // CommitPoses has ended the job; its holder's report of that is on the way.
  const bool has_scene =
      entry->job.kind == JobKind::kPose && entry->job.state == JobState::kSucceeded;
  if (has_scene && IsHolder(entry->job, lease)) return LeaseOrder::kTrain;
  NERF_RETURN_IF_ERROR(RequireHolder(entry->job, lease, call));
  RenewDeadline(lease.key());
  gangs_.Heard(lease.worker, state_.clock.Now());
  // Orders, moves and progress are rank 0's.
  if (lease.kind == JobKind::kTraining && lease.part > 0) return LeaseOrder::kTrain;
  if (progress != nullptr && lease.kind == JobKind::kTraining)
    gangs_.rates.Note(entry->job.training.config.method, *progress);
  const LeaseOrder order = OrderFor(entry->job);
  if (progress != nullptr) NoteProgress(state_, *entry, *progress);
  if (state_.IsClaimed({ClaimKey::Kind::kJob, lease.job})) {
    // Another change of the job is being stored. If the job still has to move afterwards, the next
    // call moves it.
    if (progress != nullptr) ShowProgress(state_, *entry, *progress);
    return order;
  }
  JobChange change(*entry, state_.clock.WallNow());
  const JobState from = entry->job.state;
  if (from == JobState::kQueued || (from == JobState::kPreparing && wanted == JobState::kRunning)) {
    NERF_RETURN_IF_ERROR(change.Move(wanted));
  }
  // Stored progress is only used after a restart, so it may be some seconds old.
  const bool store_progress =
      progress != nullptr && entry->job.progress != *progress &&
      state_.clock.Now() - entry->progress_stored_at >= state_.options.progress_store_interval;
  if (!store_progress) {
    if (progress != nullptr) ShowProgress(state_, *entry, *progress);
    state_.ApplyLater(*entry, std::move(change));
    return order;
  }
  change.job.progress = *progress;
  change.Record(JobEventKind::kProgress);
  state_.ApplyLater(*entry, std::move(change),
                    [&state = state_, entry, progress = *progress](const absl::Status& status) {
                      state.mu.AssertHeld();
                      if (!status.ok()) ShowProgress(state, *entry, progress);
                    });
  return order;
}

absl::Status LeaseTable::AddRecentProgress(const LeaseRef& lease,
                                           const std::vector<JobProgress>& recent) {
  std::vector<CurvePoint> points;
  for (const JobProgress& progress : recent) {
    if (const auto point = PointOf(progress); point.has_value()) points.push_back(*point);
  }
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindJob(lease.job, lease.kind));
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
  entry.no_room_on.clear();
  entry.no_room_pause = absl::ZeroDuration();
  if (checkpoint.preview_psnr.has_value()) {
    job.best_preview_psnr = std::max(job.best_preview_psnr.value_or(*checkpoint.preview_psnr),
                                     *checkpoint.preview_psnr);
  }
  result.retired = RetireCheckpoints(job.checkpoints, state_.options.n_kept_checkpoints);
  leased.change.Record(JobEventKind::kCheckpointCommitted, checkpoint.step);
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(leased.change)));
  ReleaseBlobs(result.retired);
  for (const std::string& member : entry.job.lease.members) {
    if (workers_ != nullptr) workers_->EngineWorked(member);
  }
  LogInfo("checkpoint committed", {{"project", lease.job.project},
                                   {"job", lease.job.id},
                                   {"step", checkpoint.step},
                                   {"retired", result.retired.size()}});
  return result;
}

absl::StatusOr<Job> LeaseTable::Finish(const LeaseRef& lease, const JobOutcome& reported) {
  // Called without the lock, because they read the file system.
  const JobOutcome outcome = WithFilesChecked(lease, reported);
  std::optional<std::vector<JobInput>> lack = LackOf(lease, outcome);
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(const JobEntry* existing, state_.FindUnclaimedJob(lease.job, lease.kind));
  if (existing->job.kind == JobKind::kRender) {
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
  if (job.kind == JobKind::kPose && outcome.kind == JobOutcome::Kind::kSucceeded &&
      job.state != JobState::kCancelling) {
    return Refuse(std::move(leased), StateConflict(fmt::format("no scene of {} was committed",
                                                               PoseJobName(lease.job))));
  }
  const bool has_files = outcome.exported.has_value() && !outcome.exported->files.empty();
  if (job.kind == JobKind::kExport && ending.has_value() && ending->to == JobState::kSucceeded) {
    if (!has_files) {
      return Refuse(std::move(leased), StateConflict(fmt::format("no file of {} was named",
                                                                 JobName(lease.job, lease.kind))));
    }
    job.export_result = outcome.exported;
  }
  if (!ending.has_value()) {
    return Refuse(std::move(leased), StateConflict(fmt::format(
                                         "{} is {}: nobody asked its worker to stop",
                                         JobName(lease.job, lease.kind), JobStateName(job.state))));
  }
  std::optional<PreviewRecord> removed_preview;
  if (outcome.progress.has_value()) {
    job.progress = *outcome.progress;
    removed_preview = NotePreview(job.progress, &job);
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
          fmt::format("{}: {}", NameOfMember(job, lease.part), outcome.error.message);
    }
  }
  NERF_RETURN_IF_ERROR(change.Move(ending->to));
  NERF_RETURN_IF_ERROR(state_.Apply(entry, std::move(change)));
  if (removed_preview.has_value()) state_.blobs.Release(removed_preview->image);
  ReleaseBlobs(retired);
  state_.observer.OnAttemptEnded(entry.job, ending->result);
  return entry.job;
}

JobOutcome LeaseTable::WithFilesChecked(const LeaseRef& lease, const JobOutcome& outcome) {
  JobOutcome checked = outcome;
  if (lease.kind != JobKind::kExport) checked.exported.reset();
  if (!checked.exported.has_value()) return checked;
  std::vector<BlobRef> needed;
  for (const SceneFileRecord& file : checked.exported->files) needed.push_back(file.blob);
  if (state_.RequireBlobs(needed).ok()) return checked;
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

absl::StatusOr<Job> LeaseTable::Release(const LeaseRef& lease, QueueReason reason,
                                        std::optional<uint32_t> lost_rank) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(LeasedChange leased, BeginLeased(lease, "Release", JobState::kRunning));
  if (leased.change.job.kind == JobKind::kRender) {
    return ReleasePart(std::move(leased), lease.part, reason);
  }
  const std::vector<std::string>& members = leased.entry->job.lease.members;
  const bool is_gang = leased.entry->job.lease.IsGang();
  if (is_gang && reason == QueueReason::kWorkerLost) {
    return ReleaseBrokenGang(std::move(leased), lease.part, lost_rank);
  }
  const std::string worker = members[lease.part];
  const StopCause stop = leased.change.job.stop;
  NERF_RETURN_IF_ERROR(EndPlacement(
      leased.change, reason, /*keep_holder=*/false,
      is_gang ? NameOfMember(leased.change.job, lease.part) + " gave the job back" : ""));
  // Before it is queued: whoever is woken by that sees that it waits aside.
  const bool no_room = reason == QueueReason::kNoRoom;
  if (no_room) PutAside(*leased.entry, worker);
  if (stop == StopCause::kPreempted) {
    for (const std::string& kept : leased.entry->kept_workers) {
      state_.reserved_workers[kept] = {leased.entry->preempted_for,
                                       state_.clock.Now() + state_.options.lease_ttl};
    }
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*leased.entry, std::move(leased.change)));
  state_.observer.OnAttemptEnded(leased.entry->job, no_room ? "no_room" : ResultOf(stop));
  return leased.entry->job;
}

absl::StatusOr<Job> LeaseTable::ReportEngineCrash(const LeaseRef& lease, std::string_view message,
                                                  bool shared_engine) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(LeasedChange leased,
                        BeginLeased(lease, "ReportEngineCrash", JobState::kRunning));
  if (leased.change.job.kind == JobKind::kRender) {
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
        fmt::format("the engine died {} times in a row{}; last: {}", job.crashes_in_row,
                    StartsOver(job.kind) ? "" : " without a new checkpoint", message);
    job.error.metadata["crashes"] = std::to_string(job.crashes_in_row);
    NERF_RETURN_IF_ERROR(leased.change.Move(JobState::kFailed));
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*leased.entry, std::move(leased.change)));
  const Job& now = leased.entry->job;
  if (workers_ != nullptr && !shared_engine) workers_->EngineDied(worker, lease.job);
  state_.observer.OnAttemptEnded(now, "engine_crash");
  LogWarning("engine crashed", {{"project", lease.job.project},
                                {"job", lease.job.id},
                                {"worker", lease.worker},
                                {"crashes_in_row", now.crashes_in_row},
                                {"shared_engine", shared_engine},
                                {"message", message}});
  return now;
}

void LeaseTable::ExpireLeases() {
  LookForInputs();
  QueueLock lock(state_);
  SweepGangs();
  const SteadyTime now = state_.clock.Now();
  while (!state_.jobs_aside.empty() && state_.jobs_aside.begin()->first <= now) {
    state_.jobs_aside.erase(state_.jobs_aside.begin());
    for (const auto& [worker, signal] : state_.work_signals) state_.wake.push_back(signal);
  }
  std::vector<LeaseKey> expired;  // ending a placement changes the original
  for (const auto& [lease, deadline] : state_.lease_deadlines) {
    if (now >= deadline && !state_.IsClaimed({ClaimKey::Kind::kJob, lease.job})) {
      expired.push_back(lease);
    }
  }
  for (const LeaseKey& lease : expired) {
    // Another part of the same job has just expired: the next call ends this one.
    if (state_.IsClaimed({ClaimKey::Kind::kJob, lease.job})) continue;
    JobEntry& entry = state_.jobs.at(lease.job);
    JobChange change(entry, state_.clock.WallNow());
    const absl::Status ended = EndLease(change, lease.part, /*keep_holder=*/true);
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
