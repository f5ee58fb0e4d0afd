#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_inputs.h"
#include "server/queue/jobs/job_outcome.h"
#include "server/queue/jobs/lease.h"
#include "server/queue/leases/gang_state.h"
#include "server/queue/leases/grant_policy.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

// What a worker gets with a job.
struct LeaseGrant {
  LeaseRef lease;
  Job job;
  SceneRecord scene;
  std::optional<CheckpointRecord> resume;  // the newest committed one; unset on a first attempt
  absl::Duration ttl;                      // from now, measured by the holder's steady clock
  // An engine has crashed since the last committed checkpoint. Until the next one the engine must
  // do nothing else, so that only this job can cause another crash.
  bool alone = false;
  // Of a gang: `lease.part` is the worker's rank, and all of them run on one host or not.
  uint32_t n_ranks = 1;
  bool one_host = true;
};

// What a holder reports about its work.
enum class WorkPhase { kPreparing, kRunning };

// What a holder should do now.
enum class LeaseOrder {
  kTrain,
  kCheckpointAndStop,  // then Release
  kCancel              // stop at once, then Finish
};
LeaseOrder OrderFor(const Job& job);
// True if `lease` names the last grant of the job. A holder whose lease has expired stays recorded,
// and stays the holder, until the next grant.
bool IsHolder(const Job& job, const LeaseRef& lease);

// Whether the lease is over, so that its worker stops: another epoch is current, or the worker's
// gang has ended. A lease that has expired and may be taken up again is not.
bool IsLeaseOver(const Job& job, const LeaseRef& lease);

struct CommittedCheckpoint {
  CheckpointRecord checkpoint;            // as stored
  std::vector<CheckpointRecord> retired;  // dropped in the same transaction
};

// Runs a callback when there may be work or an order for a worker, until it is destroyed.
class WorkSubscription {
 public:
  ~WorkSubscription();
  WorkSubscription(const WorkSubscription&) = delete;
  WorkSubscription& operator=(const WorkSubscription&) = delete;

 private:
  friend class LeaseTable;
  WorkSubscription(QueueState* state, std::string worker, std::shared_ptr<WatchSignal> signal);
  QueueState& state_;
  const std::string worker_;
  const std::shared_ptr<WatchSignal> signal_;
};

// The workers' side of the queue: places jobs on workers under leases and records the results.
// JobQueue is the clients' side.
//
// Jobs are executed at least once, with the effect of exactly one execution: every write of a
// worker carries the lease epoch of its grant, and a write with a stale epoch is refused with
// FailedPrecondition LEASE_FENCED (metadata current_epoch), and its worker stops. If a lease has
// expired but the job was not granted again, the holder's next write takes the lease up again.
//
// A gang (WorkerCount) gets one lease together, in one change: all or none. Each member renews it
// with its rank as the part, and it lives as long as the member that was silent longest. When one
// member is lost or gives up, the lease is over for all: nobody takes it up again, the job is
// queued with the member's name in `queue_message`. Rank 0 alone reports progress, commits and
// finishes.
//
// A call that returns OK is durable; Renew and ReportProgress, which never wait for the store, are
// not. A call that fails changes nothing but the lease: any write with a valid epoch renews it, or
// takes it up again, even if its content is refused.
//
// Common errors, not repeated below: NotFound RESOURCE_NOT_FOUND; Unavailable STORE_READ_ONLY when
// the store cannot write. Thread-safe. `state` outlives the table and everything it hands out.
class LeaseTable {
 public:
  static constexpr absl::Duration kFirstNoRoomPause = absl::Seconds(30);
  static constexpr absl::Duration kMaxNoRoomPause = absl::Minutes(10);
  // Of jobs of whose kind not only the files need room (KindTraits::waits_for_room).
  static constexpr int kMaxNoRoomRounds = 3;
  // Of a job that starts over, by its project's time of a day.
  static constexpr int kMaxQuotaStops = 2;
  // How long a job that crashed on a worker waits for others that are busy.
  static constexpr absl::Duration kElsewherePause = absl::Minutes(10);

  // `workers` outlives the table. Without it every worker is healthy and the only one.
  explicit LeaseTable(QueueState* state, WorkerTable* workers = nullptr)
      : state_(*state), workers_(workers) {}

  // `on_work` runs, on any thread and without locks held, whenever Acquire may have a job for the
  // worker or the order for a job that it holds has changed. It should only wake the worker.
  std::unique_ptr<WorkSubscription> SubscribeWork(const std::string& worker,
                                                  std::function<void()> on_work);
  // What `on_work` of a worker with this lease is about: nullopt where the lease is over, kTrain
  // also of a job that is gone.
  std::optional<LeaseOrder> OrderOf(const LeaseRef& lease) const;
  // A worker has connected and says which leases it holds. Leases that it should hold and does not
  // name end at once (WORKER_LOST).
  absl::Status Attach(const std::string& worker, std::span<const LeaseRef> held);
  // Grants the next queued job that the worker may take; nullopt without one. Next is, of the
  // project whose turn it is (FairShare), the job with the highest priority, of equals the oldest.
  // An unhealthy worker may take none. A job that has crashed on it, or that it had no room for,
  // goes to another worker first, where one is connected that offers what the job needs.
  // InvalidArgument FIELD_INVALID for a bad id.
  // A job that asks for several workers is granted to `request.worker` together with others that
  // have asked, got nothing and are subscribed; those get their grants by their next Acquire and
  // are woken for it. While such a job waits for workers, a job behind it is granted only if it is
  // expected to end before the workers are there, or if enough others will be.
  absl::StatusOr<std::optional<LeaseGrant>> Acquire(const GrantRequest& request);
  // The worker takes no job until its next Acquire.
  void Withdraw(const std::string& worker);
  // A member other than rank 0 is about to leave: rank 0 is told to commit a checkpoint and to hand
  // the job back. Does nothing with a stale lease.
  void LeaveGang(const LeaseRef& lease);

  // What a rank tells all others, by number. Returns the texts of all ranks once all have told
  // theirs; before that nothing, and the workers are woken when the last one came. Repeating it is
  // harmless. Errors: InvalidArgument FIELD_INVALID (text or number too large).
  absl::StatusOr<std::vector<std::string>> TellRanks(const LeaseRef& lease, uint32_t sequence,
                                                     const std::string& text);
  // What TellRanks would return now.
  absl::StatusOr<std::vector<std::string>> RankTexts(const LeaseRef& lease, uint32_t sequence);

  // Renews the lease of a working holder. The first kRunning moves the job to RUNNING. Does not
  // wait for the store: a move is stored afterwards, and retried by the next call if the store
  // refuses it.
  absl::StatusOr<LeaseOrder> Renew(const LeaseRef& lease, WorkPhase phase);
  // Renews, and shows watchers the progress. Stores one progress per progress_store_interval,
  // without waiting.
  absl::StatusOr<LeaseOrder> ReportProgress(const LeaseRef& lease,
                                            const internal::JobProgress& progress);
  // Adds earlier progress, which a restart of the server may have lost, to the job's curves.
  absl::Status AddRecentProgress(const LeaseRef& lease, const std::vector<v1::Progress>& recent);
  // Makes uploaded files the job's newest checkpoint. Repeating it succeeds. Errors:
  // FailedPrecondition BLOBS_MISSING, STATE_CONFLICT (step not above the last one);
  // InvalidArgument FIELD_INVALID.
  absl::StatusOr<CommittedCheckpoint> CommitCheckpoint(const LeaseRef& lease,
                                                       const CheckpointRecord& checkpoint);
  // Ends a placement for good. In CANCELLING every outcome but kFailed ends CANCELLED; in PAUSING
  // kSucceeded ends PAUSED (the next attempt finishes at once). A failure CHECKPOINT_CORRUPT of a
  // job with checkpoints drops the newest one and queues the job again. After a failure because a
  // file that it needs is damaged or missing the job is queued until that was uploaded again
  // (BLOBS_MISSING). An export job whose files are not there FAILED. Repeating it succeeds.
  // Errors: FailedPrecondition STATE_CONFLICT (kCancelled or kPaused without a request).
  absl::StatusOr<Job> Finish(const LeaseRef& lease, const JobOutcome& outcome);
  // The worker hands the lease back, because it drains (kWorkerDrained), has no room for the job's
  // files (kNoRoom) or another member of its gang does not answer (kWorkerLost; `lost_rank` where
  // it is known; `why`, for people). The job is queued again for that reason. If no worker has room
  // it waits aside, so that jobs behind it start, and is tried again after growing pauses; but for
  // a training it fails (NO_ROOM) after kMaxNoRoomRounds. Ranks that do not answer though their
  // workers are connected count as a crash.
  absl::StatusOr<Job> Release(const LeaseRef& lease,
                              QueueReason reason = QueueReason::kWorkerDrained,
                              std::optional<uint32_t> lost_rank = std::nullopt,
                              std::string_view why = {});
  // The engine died. Queued again (ENGINE_CRASHED), or FAILED with reason ENGINE_CRASHED after
  // max_attempts crashes in a row without a new checkpoint; `message` describes the crash. With
  // `shared_engine` (the engine had other work, too) the crash is not counted, but the next grants
  // have `alone` until a checkpoint is committed.
  absl::StatusOr<Job> ReportEngineCrash(const LeaseRef& lease, std::string_view message,
                                        bool shared_engine = false);

  // Expires leases, and wakes workers for jobs that have waited aside or whose files are there
  // again. Call about once a second.
  // Does not wait for the store; the next call retries what it refused.
  void ExpireLeases();

  // Adds uploaded frames, by index, or the movie to a render job. Repeating it succeeds. Errors:
  // FailedPrecondition BLOBS_MISSING; InvalidArgument FIELD_INVALID (a frame that is not of the
  // lease's part).
  absl::Status CommitFrames(const LeaseRef& lease,
                            const std::vector<std::pair<uint32_t, FrameRecord>>& frames,
                            const std::optional<BlobRef>& movie);
  // Stores what was found for a pose job. With files, checked as those of a scene, it also makes
  // the job's scene of them, and the job has SUCCEEDED; without, its holder finishes it. Repeating
  // it succeeds. Errors: FailedPrecondition BLOBS_MISSING, STATE_CONFLICT (in CANCELLING);
  // InvalidArgument FIELD_INVALID; ResourceExhausted QUOTA_EXCEEDED.
  absl::Status CommitPoses(const LeaseRef& lease, const v1::PoseReport& report,
                           std::vector<SceneFileRecord> files);

 private:
  // Failed where the server lacks a file that the job has made. Reads the file system.
  JobOutcome WithFilesChecked(const JobOutcome& outcome);
  // Begins a change of the lease's job and renews the lease. Waits until nobody else changes the
  // job. If the lease has expired, the change takes it up again, which moves the job to
  // `state_if_retaken`. LEASE_FENCED if the lease is stale. `call` is the method's name, for the
  // observer.
  struct LeasedChange {
    JobEntry* entry = nullptr;
    JobChange change;
  };
  absl::StatusOr<LeasedChange> BeginLeased(const LeaseRef& lease, std::string_view call,
                                           JobState state_if_retaken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Returns `status` without the holder's change, but still takes its lease up again if that was
  // begun.
  absl::Status Refuse(LeasedChange leased, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::Status RequireHolder(const Job& job, const LeaseRef& lease, std::string_view call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The job of a lease that its holders have together, by rank. LEASE_FENCED; KIND_CANNOT.
  absl::StatusOr<JobEntry*> FindRanked(const LeaseRef& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Renew without progress, ReportProgress with it.
  absl::StatusOr<LeaseOrder> Heard(const LeaseRef& lease, std::string_view call, JobState wanted,
                                   const internal::JobProgress* progress);
  // Ends a placement without an outcome: the job is queued again for `reason`, or becomes PAUSED or
  // CANCELLED if a client asked for that. With `keep_holder` the holder may take the lease up
  // again.
  static absl::Status EndPlacement(JobChange& change, QueueReason reason, bool keep_holder,
                                   std::string message = "");
  // Whether another worker is to have the job before this one.
  bool GoesElsewhere(const JobEntry& entry, const std::string& worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void PutAside(JobEntry& entry, const std::string& worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Stores the change; where that fails the job is aside as before, since the worker will report
  // the same again.
  absl::Status ApplyRelease(LeasedChange leased, const JobEntry::Aside& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Fails a job that starts over whenever it stops, where the time of a day has not been enough for
  // it twice. False: it is to be queued again.
  absl::StatusOr<bool> FailsWithoutDay(LeasedChange& leased)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Puts the job aside and, after kMaxNoRoomRounds, fails it. False: it is to be queued again.
  absl::StatusOr<bool> FailsWithoutRoom(LeasedChange& leased, const std::string& worker,
                                        std::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // What the worker had of a job has got on.
  void NoteWorked(const std::string& worker) {
    if (workers_ != nullptr) workers_->Worked(worker);
  }
  // The newest checkpoint cannot be read: drops it, so that the job goes on from the one before.
  absl::StatusOr<Job> DropCheckpoint(LeasedChange leased, const JobError& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // For jobs whose files are damaged or missing (input_leases.cc). LackOf: nullopt unless that is
  // why the placement failed; else what is still missing.
  std::optional<std::vector<JobInput>> LackOf(const LeaseRef& lease, const JobOutcome& outcome)
      ABSL_LOCKS_EXCLUDED(state_.mu);
  std::vector<JobInput> CurrentInputs(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Those of `inputs` that the blob store does not have. Reads the file system.
  std::vector<JobInput> LackingOf(std::vector<JobInput> inputs);
  absl::StatusOr<Job> AwaitInputs(LeasedChange leased, uint32_t part, std::vector<JobInput> lacking)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Lets jobs start whose files are there again.
  void LookForInputs() ABSL_LOCKS_EXCLUDED(state_.mu);
  // A job that a worker may be granted now; of one that wants a gang with its members.
  struct NextJob {
    JobEntry* entry = nullptr;
    std::optional<GangChoice> gang;
  };
  // The job that the worker is kept for (QueueState::ReservationOf). Then it is kept no longer,
  // but for a gang, which needs others, too.
  JobEntry* TakeReserved(const GrantRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  std::optional<NextJob> NextFor(const GrantRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // `ahead`: the first gang that waits for this worker; set where one is found.
  std::optional<NextJob> FirstOfProject(const std::string& project, const GrantRequest& request,
                                        std::optional<WaitingGang>* ahead)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The lease's worker was lost.
  static absl::Status LoseLease(JobChange& change, uint32_t part, bool keep_holder);
  // As EndPlacement; of a job with leases of parts, the part is free again.
  static absl::Status EndLease(JobChange& change, uint32_t part, QueueReason reason,
                               bool keep_holder, std::string message = "");
  // For gangs (gang_leases.cc).
  void NoteAsker(const GrantRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  std::optional<LeaseGrant> TakePromised(const std::string& worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  std::vector<GangCandidate> CandidatesFor(const JobEntry& entry, const GrantRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // When each worker that holds a lease is free; InfiniteDuration where that is not known.
  std::map<std::string, absl::Duration> BusyWorkers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // How the gang waits for the asker and others; nullopt if too few workers are connected.
  std::optional<WaitingGang> WaitFor(const JobEntry& entry, const GangOutlook& outlook)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  bool MayStartBefore(const WaitingGang& gang, const Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::StatusOr<std::optional<LeaseGrant>> GrantGang(JobEntry& entry, const std::string& asker,
                                                      const GangChoice& gang)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Forgets what is over.
  void SweepGangs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The member that is lost when `reporter` says so: one that is not connected, or `lost_rank`.
  // nullopt if that is not known.
  std::optional<uint32_t> LostRank(const Job& job, uint32_t reporter,
                                   std::optional<uint32_t> lost_rank)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::StatusOr<Job> ReleaseBrokenGang(LeasedChange leased, uint32_t reporter,
                                        std::optional<uint32_t> lost_rank)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // For jobs with leases of parts (frame_leases.cc): Acquire, Finish and ReportEngineCrash.
  absl::StatusOr<std::optional<LeaseGrant>> AcquirePart(JobEntry& entry, const std::string& worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::StatusOr<Job> FinishPart(const LeaseRef& lease, const JobOutcome& outcome,
                                 std::optional<std::vector<JobInput>> lack)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  absl::StatusOr<Job> CrashPart(LeasedChange leased, uint32_t part, std::string_view message,
                                bool shared_engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  LeaseGrant MakeGrant(const JobEntry& entry, const std::string& worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Releases the blobs of checkpoints that the job no longer has.
  void ReleaseBlobs(std::span<const CheckpointRecord> checkpoints)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
  WorkerTable* const workers_;  // may be null
  FairShare fair_share_ ABSL_GUARDED_BY(state_.mu);
  GangState gangs_ ABSL_GUARDED_BY(state_.mu);
};

}  // namespace nerf
