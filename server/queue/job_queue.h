#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/job.h"
#include "server/queue/page.h"
#include "server/queue/queue_state.h"
#include "server/queue/watcher.h"

namespace nerf {

// What a client wants trained. Checked by the caller against engine/config; the queue checks what
// spans resources (scene, init) and the names.
struct JobSpec {
  std::string project;
  std::string id;          // empty: the queue draws one ("j-7f3k2c81")
  std::string request_id;  // empty, or a UUID4
  std::string display_name;
  std::string scene;  // id, in the same project
  JobConfig config;
  std::string requested_config;       // opaque, part of what makes two requests the same
  std::optional<InitReference> init;  // blob is filled by the queue
  // Whether the tensors of what `init` names fit the config; unset: they do. Asked under the
  // queue's lock, of the very file that the job will start from.
  std::function<absl::Status(const std::vector<TensorRecord>& tensors)> check_init;
};

// A lease as its holder names it in every write. The epoch is the proof; the worker is compared too
// where it is stated.
struct LeaseRef {
  ResourceKey job;
  std::string worker;  // may be empty in a write
  uint64_t epoch = 0;
};

// What a worker gets with a job.
struct LeaseGrant {
  LeaseRef lease;
  Job job;
  SceneRecord scene;
  std::optional<CheckpointRecord> resume;  // the newest committed one; unset on a first attempt
  absl::Duration ttl;                      // from now, by the holder's own steady clock
  // An engine died since the last committed checkpoint: until there is one nothing else may be in
  // this one, so that a second death is the job's own.
  bool alone = false;
};

// Where a holder says that its job stands.
enum class WorkPhase { kPreparing, kRunning };

// What a holder should do now.
enum class LeaseOrder { kTrain, kPause, kCancel };

// How a placement ended, as its holder says.
struct JobOutcome {
  enum class Kind { kSucceeded, kFailed, kCancelled, kPaused };
  Kind kind = Kind::kSucceeded;
  std::optional<JobProgress> progress;  // the last one
  std::optional<double> final_psnr;     // dB; with kSucceeded, where there are test views
  JobError error;                       // with kFailed
};

struct CommittedCheckpoint {
  CheckpointRecord checkpoint;            // as stored
  std::vector<CheckpointRecord> retired;  // dropped in the same transaction
};

// The queue as numbers, for metrics.
struct QueueStats {
  std::map<std::pair<std::string, JobState>, size_t> jobs;  // by project and state
  size_t n_queued = 0;
  size_t n_leases = 0;
  size_t n_watchers = 0;
  absl::Duration oldest_queued_age = absl::ZeroDuration();  // since it was queued, last
};

// A worker's standing order to be told; ends with the object.
class WorkSubscription {
 public:
  ~WorkSubscription();
  WorkSubscription(const WorkSubscription&) = delete;
  WorkSubscription& operator=(const WorkSubscription&) = delete;

 private:
  friend class JobQueue;
  WorkSubscription(QueueState* state, std::string worker, std::shared_ptr<WatchSignal> signal);
  QueueState& state_;
  const std::string worker_;
  const std::shared_ptr<WatchSignal> signal_;
};

// Accepts jobs, places them on workers under leases and records what becomes of them.
//
// Promises: a call that returns OK is durable. Execution is at least once, the effect exactly once:
// every write of a worker carries the lease epoch of its grant, and a stale one is refused with
// FailedPrecondition LEASE_FENCED (metadata current_epoch), upon which the worker stops. A lease
// that expired and was granted to nobody else is taken up again by its holder's next write. Failed
// calls change nothing, but that any write under a good lease renews it (and takes an expired one
// up), also one that is then refused for what it says.
//
// Common errors, not repeated below: NotFound RESOURCE_NOT_FOUND; Unavailable STORE_READ_ONLY when
// the store cannot write (reads go on). Thread-safe: one lock, held while the store commits.
// `state` outlives the queue and everything it hands out.
class JobQueue {
 public:
  explicit JobQueue(QueueState* state) : state_(*state) {}

  // --- For clients ---

  // Queues a job. The same request_id with the same spec returns the earlier job as it is now.
  // `validate_only` checks everything and returns the job as it would be; it may leave out the
  // scene, where that is still to be made.
  // Errors: InvalidArgument FIELD_INVALID; NotFound (scene, init); those of check_init;
  // AlreadyExists ALREADY_EXISTS (id) or REQUEST_ID_REUSED; ResourceExhausted QUEUE_FULL.
  absl::StatusOr<Job> Create(const JobSpec& spec, bool validate_only = false);
  absl::StatusOr<Job> Get(const ResourceKey& key);
  // Newest first. InvalidArgument for a bad page.
  absl::StatusOr<Page<Job>> List(const PageRequest& request);
  // Whether the job, as some caller knows it, is queued now.
  bool IsQueued(const Job& job);
  // How many jobs of its method are queued and were created before it.
  size_t QueuedAhead(const Job& job);
  // For many such questions of one moment: create_sequence of the queued jobs by method, in order.
  std::map<std::string, std::vector<uint64_t>> QueuedByMethod();
  // Cancels: at once in QUEUED and PAUSED, otherwise through CANCELLING. Repeating it is fine.
  // Errors: FailedPrecondition STATE_CONFLICT when the job has succeeded or failed.
  absl::StatusOr<Job> Cancel(const ResourceKey& key);
  // RUNNING -> PAUSING; PAUSED -> QUEUED. Both may be repeated. FailedPrecondition STATE_CONFLICT.
  absl::StatusOr<Job> Pause(const ResourceKey& key);
  absl::StatusOr<Job> Resume(const ResourceKey& key);
  // Forgets a job that is final, with its checkpoints and events; models made of it stay, and its
  // watchers read to the end. Errors: FailedPrecondition STATE_CONFLICT.
  absl::Status Delete(const ResourceKey& key);
  // The kept checkpoint of a step; without a step the newest.
  absl::StatusOr<CheckpointRecord> GetCheckpoint(const ResourceKey& job,
                                                 std::optional<uint32_t> step);
  // Follows a job from now (empty token) or from a token. `on_new` runs, on any thread and without
  // locks held, whenever TryNext may have something: it should only wake the reader.
  // Errors: InvalidArgument FIELD_INVALID (token unreadable or of another job), DataLoss
  // EPOCH_MISMATCH (token of another store).
  absl::StatusOr<std::unique_ptr<Watcher>> Watch(const ResourceKey& key, std::string_view token,
                                                 std::function<void()> on_new);

  // --- For workers ---

  // Wakes the worker (any thread, no locks held) when a job is queued or an order for one of its
  // leases changes.
  std::unique_ptr<WorkSubscription> SubscribeWork(const std::string& worker,
                                                  std::function<void()> on_work);
  // Says which leases a worker that has just (re)connected still holds. Jobs that the books lease
  // to it and that it does not name are lost at once (WORKER_LOST), without waiting for the TTL.
  absl::Status Attach(const std::string& worker, std::span<const LeaseRef> held);
  // Grants the oldest queued job that `may_take` says yes to (unset: to all), at lease_epoch + 1:
  // QUEUED -> PREPARING. nullopt when none waits. `may_take` runs under the queue's lock.
  absl::StatusOr<std::optional<LeaseGrant>> Acquire(
      const std::string& worker, const std::function<bool(const Job&)>& may_take = nullptr);
  // Heartbeat: the lease lives for another TTL. The first kRunning moves PREPARING -> RUNNING.
  absl::StatusOr<LeaseOrder> Renew(const LeaseRef& lease, WorkPhase phase);
  // A heartbeat with progress (about once a second). Watchers see it at once; it is stored once in
  // progress_store_interval, and a failure of that is no error.
  absl::StatusOr<LeaseOrder> ReportProgress(const LeaseRef& lease, const JobProgress& progress);
  // Makes uploaded blobs the job's newest checkpoint and retires older ones: the last three, the
  // best by preview PSNR and the promoted stay. Repeating a commit of the same step and blobs
  // succeeds. create_time and promoted of the argument are ignored. Errors: FailedPrecondition
  // BLOBS_MISSING, STATE_CONFLICT (step not above the last one); InvalidArgument FIELD_INVALID.
  absl::StatusOr<CommittedCheckpoint> CommitCheckpoint(const LeaseRef& lease,
                                                       const CheckpointRecord& checkpoint);
  // Ends a placement for good. In CANCELLING every outcome but kFailed ends CANCELLED; in PAUSING
  // kSucceeded ends PAUSED (the next attempt finishes at once). Repeating it succeeds.
  // Errors: FailedPrecondition STATE_CONFLICT (kCancelled or kPaused that nobody asked for).
  absl::StatusOr<Job> Finish(const LeaseRef& lease, const JobOutcome& outcome);
  // Hands the lease back because the worker leaves: the job is queued again (WORKER_DRAINED).
  absl::StatusOr<Job> Release(const LeaseRef& lease);
  // The engine died. Queued again (ENGINE_CRASHED), or FAILED with reason ENGINE_CRASHED after
  // max_attempts crashes in a row without a new checkpoint; `message` says what was seen. A crash
  // of an engine that had other work, too, is not counted, but attempts are `alone` until one has
  // committed a checkpoint.
  absl::StatusOr<Job> ReportEngineCrash(const LeaseRef& lease, std::string_view message,
                                        bool shared_engine = false);

  // --- For the server's clockwork ---

  // Expires leases; once an hour forgets old requests and the events of jobs that ended long ago.
  // Call about once a second. An error means that the
  // store refused; the next call tries again.
  absl::Status Tick();
  QueueStats Stats();

 private:
  absl::StatusOr<JobEntry*> Find(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The entry of a lease, renewed; an expired lease is taken up again, into `state_if_retaken`.
  // LEASE_FENCED otherwise. `call` names the method for the observer.
  absl::StatusOr<JobEntry*> FindLeased(const LeaseRef& lease, std::string_view call,
                                       JobState state_if_retaken, PendingSignals& pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Moves a job to `target(state)`: nothing happens where that is its state already; nullopt is
  // STATE_CONFLICT.
  using TargetState = std::function<std::optional<JobState>(JobState from)>;
  absl::StatusOr<Job> ChangeState(const ResourceKey& key, const TargetState& target);
  // Finds the file that `init` names, and checks it.
  absl::Status ResolveInit(const JobSpec& spec, InitReference& init)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Ends a placement that has no outcome of its own: queued again for `reason`, or PAUSED or
  // CANCELLED where that was asked for. With `keep_holder` the holder may take the lease up again.
  absl::Status EndPlacement(JobEntry& entry, Job changed, QueueReason reason, bool keep_holder,
                            PendingSignals& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Moves a copy of the entry's job through Transition and applies it.
  absl::Status Move(JobEntry& entry, JobState to, PendingSignals& pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Commits `changed` (a changed copy of the entry's job) with one event, then makes it the truth
  // and tells whoever waits.
  absl::Status Apply(JobEntry& entry, Job changed, JobEventKind kind, PendingSignals& pending,
                     uint32_t checkpoint_step = 0) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Lets go of the preview image that `now` has replaced, if it has.
  void ReleasePreview(const std::optional<BlobRef>& before, const std::optional<BlobRef>& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Lets go of the files of checkpoints that the books no longer name.
  void ReleaseBlobs(std::span<const CheckpointRecord> checkpoints)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Once an hour.
  absl::Status Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  LeaseGrant MakeGrant(const JobEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
};

}  // namespace nerf
