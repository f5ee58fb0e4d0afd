#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/queue/jobs/job_change.h"
#include "server/queue/jobs/lease.h"
#include "server/queue/jobs/queue_observer.h"
#include "server/queue/jobs/row_log.h"
#include "server/queue/jobs/watch_log.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/resources/project_record.h"
#include "server/queue/resources/token_sealer.h"
#include "server/queue/state/job_store.h"
#include "server/queue/state/queue_index.h"
#include "server/queue/state/request_log.h"
#include "server/queue/state/store_writer.h"
#include "server/queue/state/stored_use.h"

namespace nerf {

struct QueueOptions {
  absl::Duration lease_ttl = absl::Seconds(30);
  int max_attempts = 3;  // engine crashes in a row without a new checkpoint, then FAILED
  size_t max_queued_jobs = 10'000;
  uint64_t max_record_bytes = uint64_t{256} << 20;  // CheckNewRecord
  size_t max_events_per_job = 1'000;  // older ones are dropped; a watch then shows a gap
  size_t n_kept_checkpoints = 3;      // beside the best and the promoted ones
  // After this time a final job keeps only its last event; a watch from before shows a gap.
  absl::Duration final_events_retention = absl::Hours(1);
  absl::Duration progress_store_interval = absl::Seconds(10);
  absl::Duration request_retention = absl::Hours(24 * 7);
  std::set<std::string> projects = {"default"};  // the existing projects
};

// A resource that an operation is changing while its write is being stored. Nobody else may change
// it.
struct ClaimKey {
  enum class Kind { kJob, kScene, kModel, kRequest, kProject, kWorker };
  Kind kind = Kind::kJob;
  // For kRequest: project and request id; for kProject and kWorker only one of the two is set.
  ResourceKey key;

  auto operator<=>(const ClaimKey&) const = default;
};

// A worker that is kept for a queued job for a while.
struct ReservedWorker {
  ResourceKey job;
  SteadyTime until;
};

// The value of a key in a map; null if there is none.
template <typename Map>
auto* FindValue(Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

// The state that JobQueue, LeaseTable, SceneCatalog and ModelCatalog share, under one mutex, and
// the store. Every change is stored before memory changes and before anybody is notified.
//
// A change is decided on copies, claimed, committed, and only then applied; a refused commit leaves
// memory as it was. The mutex is free while the store works. Nobody else changes claimed resources
// meanwhile, and readers see them unchanged:
//
//   QueueLock lock(state);
//   state.AwaitUnclaimed(keys);      // nobody else is changing them
//   ... decide on copies, refuse what is wrong ...
//   Claim claim(state, keys);
//   NERF_RETURN_IF_ERROR(state.Commit(write));   // the mutex is free in here
//   ... apply the copies ...
//
// Thread-safe through `mu`. Clock, random source, store, blob index and observer outlive it.
class QueueState {
 public:
  struct Dependencies {
    Clock* clock = nullptr;
    RandomSource* random = nullptr;
    JobStore* store = nullptr;
    BlobIndex* blobs = nullptr;
    QueueObserver* observer = nullptr;  // may be null
    // The machine's clock, to measure commits; null: `clock`.
    const Clock* machine_clock = nullptr;
    // True: a separate thread commits writes, many at a time. False, for tests with one thread:
    // every commit runs at once, with the lock held.
    bool groups_commits = false;
  };

  // Loads the store. Held leases get one more TTL from now, so that their holders can reconnect;
  // until then those jobs are granted to nobody else.
  static absl::StatusOr<std::unique_ptr<QueueState>> Open(const QueueOptions& options,
                                                          const Dependencies& dependencies);
  // Finishes submitted writes. Requires: nobody waits in Commit.
  ~QueueState();

  // Visits the blobs that scenes, jobs and models refer to, possibly repeatedly, without the lock.
  // Holds it only briefly at a time, for any number of blobs.
  using BlobVisit = std::function<void(const std::string& project, const BlobRef& blob)>;
  void VisitNamedBlobs(const BlobVisit& visit) ABSL_LOCKS_EXCLUDED(mu);
  // Every blob that scenes, jobs (BlobsOf in kind_policy.h) or models refer to, including
  // references made during the call. The blob store's collector must keep them. Holds the lock only
  // briefly at a time, for any number of blobs.
  std::set<std::string> ReachableBlobs() ABSL_LOCKS_EXCLUDED(mu);

  // The store's own time (StoredState::age).
  absl::Time Age() const;
  // Stores the age, which also finds out whether the store can be written again. Does not wait.
  void StoreAge() ABSL_LOCKS_EXCLUDED(mu);

  // By the machine's clock, which goes on while the server's stands still.
  SteadyTime MachineNow() const { return machine_clock_.Now(); }

  // True if one commit has taken longer than a healthy disk needs.
  bool StoreHangs() const;

  // Sends a write to the store. `done` is called with the lock held once the store has committed or
  // refused it; it must not wait.
  using Done = StoreWriter::Done;
  void Submit(StoreWrite write, Done done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Sends a write to the store and waits for it. OK means durable. The lock is free meanwhile.
  absl::Status Commit(StoreWrite write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Waits until none of these is claimed. The lock is free while it waits.
  void AwaitUnclaimed(const std::vector<ClaimKey>& keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  bool IsClaimed(const ClaimKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // The job's entry, even if a change of it is being stored.
  absl::StatusOr<JobEntry*> FindJob(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Waits until nobody else changes the job, then as FindJob.
  absl::StatusOr<JobEntry*> FindUnclaimedJob(const ResourceKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Commits a change of the unclaimed job `entry`, applies it and wakes those who wait for it. A
  // change without events does nothing.
  // `new_scenes`, which nobody else knows yet, are stored in the same commit and then added.
  absl::Status Apply(JobEntry& entry, JobChange change, std::vector<SceneRecord> new_scenes = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The same without waiting. `then` runs with the lock held after the change was applied or
  // refused.
  void ApplyLater(JobEntry& entry, JobChange change, Done then = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Jobs, scenes and models, and their keys by order of submission.
  using Jobs = std::map<ResourceKey, JobEntry>;
  using JobsInCreation = std::map<ResourceKey, Job>;
  using Scenes = std::map<ResourceKey, SceneRecord>;
  using Models = std::map<ResourceKey, ModelRecord>;
  using Keys = std::set<ResourceKey>;
  using Order = std::map<uint64_t, ResourceKey>;
  const Jobs& jobs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return jobs_; }
  const Order& job_order() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return job_order_; }
  const Scenes& scenes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return scenes_; }
  const Order& scene_order() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return scene_order_; }
  const Models& models() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return models_; }
  const Order& model_order() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return model_order_; }
  // Null if there is none; a job of any kind.
  JobEntry* FindEntry(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return FindValue(jobs_, key);
  }
  const JobEntry* FindEntry(const ResourceKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return FindValue(jobs_, key);
  }
  const SceneRecord* FindScene(const ResourceKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return FindValue(scenes_, key);
  }
  const ModelRecord* FindModel(const ResourceKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return FindValue(models_, key);
  }
  // Require: the job is there.
  JobEntry& EntryOf(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return jobs_.at(key);
  }
  JobEntry& EntryAt(uint64_t create_sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return jobs_.at(job_order_.at(create_sequence));
  }

  // Jobs whose creation is being stored. They already count, and refer to scenes, models and blobs.
  const JobsInCreation& jobs_in_creation() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return jobs_in_creation_;
  }
  void BeginCreation(std::span<const Job> created) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void EndCreation(std::span<const Job> created) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Whether a job has the id or gets it now.
  bool IsJobTaken(const ResourceKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return jobs_.contains(key) || jobs_in_creation_.contains(key);
  }
  // A job, also one in creation, for which `matches` holds; null if there is none.
  const Job* AnyJobThat(const std::function<bool(const Job&)>& matches) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The create_sequence of the next resource.
  uint64_t next_sequence() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return next_sequence_; }
  // Takes this one and those that follow it for `n` resources. Returns the first.
  uint64_t TakeSequences(size_t n = 1) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Adds a job that is stored, with its first event.
  void AddJob(const Job& job, const JobEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Removes a job that was deleted. Its events stay for watchers that have not read all of them.
  // Leaves `entry` destroyed.
  void RemoveJob(JobEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Jobs that were shared out among others, as far as PartUpkeep has something to do for them.
  const Keys& split_jobs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return split_jobs_; }
  void ForgetSplit(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    split_jobs_.erase(key);
  }
  // Adds what is stored and removes what the store has deleted. Replaced and removed ones must be
  // there.
  void AddScene(SceneRecord scene) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  SceneRecord RemoveScene(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void AddModel(ModelRecord model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void ReplaceModel(const ModelRecord& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void RemoveModel(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Deadlines of held leases (HoldsLease).
  using Leases = std::map<LeaseKey, SteadyTime>;
  const Leases& lease_deadlines() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return lease_deadlines_;
  }
  // Gives a lease that is held its whole time again.
  void RenewLease(const LeaseKey& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Lets a queued job wait aside (JobEntry::aside) until then.
  void SetAside(JobEntry& entry, SteadyTime until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Wakes all workers for jobs that have waited aside.
  void EndAsides() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Queued jobs that are given to no worker before their files are uploaded again.
  const Keys& lacking_jobs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return lacking_jobs_; }
  // Sets what the job, if it is there, lacks. One that lacks nothing is no longer in lacking_jobs.
  void SetLacking(const ResourceKey& key, std::vector<JobInput> lacking)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Trainings that are not final and wait for a pose job.
  const Keys& jobs_awaiting_poses() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return jobs_awaiting_poses_;
  }
  // The job whose deadline is to be looked at first, once that is due. It is not returned again.
  std::optional<ResourceKey> TakeDueDeadline() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The job's deadlines are to be looked at then.
  void LookAtDeadlines(const ResourceKey& key, SteadyTime at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    job_deadlines_.emplace(at, key);
  }
  size_t n_deadlines() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return job_deadlines_.size(); }

  // Workers that are kept for a job for which another was preempted, by id.
  using Reservations = std::map<std::string, ReservedWorker>;
  const Reservations& reserved_workers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return reserved_workers_;
  }
  // Null without one. Its time may be over.
  const ReservedWorker* ReservationOf(const std::string& worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return FindValue(reserved_workers_, worker);
  }
  // Keeps the worker for the job, for as long as a lease lasts.
  void ReserveWorker(const std::string& worker, const ResourceKey& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Keeps the workers that are kept for the job for as long again.
  void KeepReserved(const ResourceKey& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void FreeWorker(const std::string& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    reserved_workers_.erase(worker);
  }
  void FreeWorkersOf(const ResourceKey& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Ids of workers that get nothing more.
  const std::set<std::string>& drained_workers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return drained_workers_;
  }
  void SetDrained(const std::string& worker, bool drained) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Projects with settings or a meter, by name.
  using Projects = std::map<std::string, ProjectRecord>;
  const Projects& projects() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return projects_; }
  const ProjectRecord* FindProject(const std::string& project) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return FindValue(projects_, project);
  }
  // Takes quota and retention of a record that is stored, but not its meter: that may have counted
  // during the commit.
  void TakeSettings(const ProjectRecord& settings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Counts time of a worker. False for a project without record if there are kMaxProjectRecords.
  bool Meter(const std::string& project, int64_t day, double seconds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Forgets meters of earlier days, except those of `kept`, of projects without settings.
  void ForgetMeters(int64_t today, const std::set<std::string>& kept)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Memory of the scenes, jobs and models of the project (BytesOf), and of all projects.
  uint64_t RecordBytesOf(const std::string& project) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  uint64_t all_record_bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return all_record_bytes_; }
  // Leases of the project that are being granted (GrantInProgress).
  size_t GrantsInProgress(const std::string& project) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  const QueueIndex& index() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return index_; }
  RequestLog& requests() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return requests_; }
  StoredUse& stored_use() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return stored_use_; }
  const StoredUse& stored_use() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return stored_use_; }
  // Whether a scene has the id, gets it now, or is to get it from a pose job.
  bool IsSceneTaken(const ResourceKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Watchers of one job and of lists. Their signals are fired at changes, once the lock is free.
  //
  // `signal` follows the events of the job, also after the job was deleted.
  void SubscribeJob(JobEntry& entry, std::shared_ptr<WatchSignal> signal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void UnsubscribeJob(const ResourceKey& key, uint64_t create_sequence,
                      const std::shared_ptr<WatchSignal>& signal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The job with this create_sequence. Requires: it is there, or a signal follows its events.
  JobEntry& WatchedJob(const ResourceKey& key, uint64_t create_sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Deleted jobs with watchers that still read their events, by create_sequence.
  const std::map<uint64_t, JobEntry>& deleted_jobs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return deleted_jobs_;
  }
  // `signal` follows the rows of the project.
  void SubscribeRows(const std::string& project, std::shared_ptr<WatchSignal> signal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void UnsubscribeRows(const std::string& project, const std::shared_ptr<WatchSignal>& signal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The job's row as it is now.
  std::shared_ptr<const JobRow> RowOf(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return rows_.RowOf(job);
  }
  const RowLog& rows() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return rows_; }
  // Names this process in tokens of `rows`; empty before the first SubscribeRows.
  const std::string& process_id() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return process_id_; }
  size_t n_watchers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return n_watchers_; }
  // Shows progress to watchers without storing it.
  void ShowProgress(JobEntry& entry, const internal::JobProgress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Takes checkpoints of the job that are stored, and nothing else of it.
  void TakeCheckpoints(JobEntry& entry, std::vector<CheckpointRecord> checkpoints)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // `signal` is fired when there is work or an order for the worker.
  void SubscribeWork(const std::string& worker, std::shared_ptr<WatchSignal> signal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void UnsubscribeWork(const std::string& worker, const std::shared_ptr<WatchSignal>& signal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  bool IsSubscribed(const std::string& worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return work_signals_.contains(worker);
  }
  // Wakes the worker's subscriptions once the lock is free.
  void Wake(const std::string& worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Wakes all workers: any of them may start a job now.
  void WakeAllWorkers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Asks the workers of a job that holds a lease to commit a checkpoint and hand it back. Not
  // stored: after a restart, whoever asked asks again.
  void RequestStop(JobEntry& entry, StopCause cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Reports a new reference to a running ReachableBlobs.
  void NoteReference(const BlobRef& blob) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // FailedPrecondition BLOBS_MISSING, naming the missing ones.
  absl::Status RequireBlobs(const std::vector<BlobRef>& needed);

  const QueueOptions options;
  Clock& clock;
  RandomSource& random;
  JobStore& store;
  BlobIndex& blobs;
  QueueObserver& observer;

  Mutex mu;
  std::string store_epoch;                  // const after Open
  std::optional<TokenSealer> token_sealer;  // const after Open, which sets it

 private:
  friend class Claim;
  friend class GrantInProgress;
  friend class QueueLock;
  QueueState(const QueueOptions& options, const Dependencies& dependencies);
  absl::Status Restore(StoredState stored) ABSL_LOCKS_EXCLUDED(mu);
  void Deliver(std::vector<StoreWriter::Finished> finished, absl::Duration duration)
      ABSL_LOCKS_EXCLUDED(mu);
  void Committed(const absl::Status& status, absl::Duration duration)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Updates the indexes after a job's state or priority changed (or, without an old state, it is
  // new).
  void Reindex(JobEntry& entry, std::optional<JobState> old_state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Counts what a record of the project takes in memory now, in place of what it took before.
  void CountRecord(const std::string& project, uint64_t before, uint64_t now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The parts of Reindex: of any job, and of parts with leases of their own.
  void ReindexState(JobEntry& entry, std::optional<JobState> old_state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void ReindexParts(JobEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // As VisitNamedBlobs, of the records of one kind.
  template <typename Records>
  void VisitBlobsOf(const Records& (QueueState::*records)() const, const BlobVisit& visit)
      ABSL_LOCKS_EXCLUDED(mu);
  StoreWrite WriteOf(JobEntry& entry, JobChange& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Applies a committed change to memory.
  void Adopt(JobEntry& entry, JobChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void WakeWorkers(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void NoteDeadlines(JobEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  const Clock& machine_clock_;
  const SteadyTime opened_at_;  // by machine_clock_
  absl::Time age_at_open_;      // const after Open
  // References made since the running ReachableBlobs began; unset if none runs.
  std::optional<std::set<std::string>> new_references_ ABSL_GUARDED_BY(mu);
  Mutex reach_mu_;  // one ReachableBlobs at a time; taken before mu
  std::set<ClaimKey> claims_ ABSL_GUARDED_BY(mu);
  CondVar claim_lifted_;
  SteadyTime next_error_log_ ABSL_GUARDED_BY(mu);
  Jobs jobs_ ABSL_GUARDED_BY(mu);
  Order job_order_ ABSL_GUARDED_BY(mu);
  std::map<uint64_t, JobEntry> deleted_jobs_ ABSL_GUARDED_BY(mu);
  JobsInCreation jobs_in_creation_ ABSL_GUARDED_BY(mu);
  Keys split_jobs_ ABSL_GUARDED_BY(mu);
  Scenes scenes_ ABSL_GUARDED_BY(mu);
  Order scene_order_ ABSL_GUARDED_BY(mu);
  // Scenes that pose jobs, which are not final, are to make.
  Keys promised_scenes_ ABSL_GUARDED_BY(mu);
  Models models_ ABSL_GUARDED_BY(mu);
  Order model_order_ ABSL_GUARDED_BY(mu);
  Leases lease_deadlines_ ABSL_GUARDED_BY(mu);
  std::multimap<SteadyTime, ResourceKey> jobs_aside_ ABSL_GUARDED_BY(mu);  // by their next try
  Keys lacking_jobs_ ABSL_GUARDED_BY(mu);
  Keys jobs_awaiting_poses_ ABSL_GUARDED_BY(mu);
  // Jobs with a deadline, by when to look at it.
  std::multimap<SteadyTime, ResourceKey> job_deadlines_ ABSL_GUARDED_BY(mu);
  Reservations reserved_workers_ ABSL_GUARDED_BY(mu);
  std::set<std::string> drained_workers_ ABSL_GUARDED_BY(mu);
  Projects projects_ ABSL_GUARDED_BY(mu);
  std::map<std::string, uint64_t> record_bytes_ ABSL_GUARDED_BY(mu);  // by project
  uint64_t all_record_bytes_ ABSL_GUARDED_BY(mu) = 0;
  std::map<std::string, size_t> grants_in_progress_ ABSL_GUARDED_BY(mu);  // by project
  QueueIndex index_ ABSL_GUARDED_BY(mu);
  RequestLog requests_ ABSL_GUARDED_BY(mu);
  StoredUse stored_use_ ABSL_GUARDED_BY(mu);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mu) = 1;
  // Signals of those who wait for work or orders, by worker id.
  std::multimap<std::string, std::shared_ptr<WatchSignal>> work_signals_ ABSL_GUARDED_BY(mu);
  // Signals to send once the lock is free (QueueLock).
  std::vector<std::shared_ptr<WatchSignal>> wake_ ABSL_GUARDED_BY(mu);
  size_t n_watchers_ ABSL_GUARDED_BY(mu) = 0;
  RowLog rows_ ABSL_GUARDED_BY(mu);  // changes of listed jobs since this process began
  std::string process_id_ ABSL_GUARDED_BY(mu);
  std::unique_ptr<StoreWriter> writer_;  // null without groups_commits
};

// Holds the queue's lock in a scope that may change the state. Sends the signals of
// QueueState once the lock is free.
class ABSL_SCOPED_LOCKABLE QueueLock {
 public:
  explicit QueueLock(QueueState& state) ABSL_EXCLUSIVE_LOCK_FUNCTION(state.mu) : state_(state) {
    state_.mu.Lock();
  }
  ~QueueLock() ABSL_UNLOCK_FUNCTION();
  QueueLock(const QueueLock&) = delete;
  QueueLock& operator=(const QueueLock&) = delete;

 private:
  QueueState& state_;
};

// Claims unclaimed keys for a scope. Requires: the lock is held at its begin and end.
class Claim {
 public:
  Claim(QueueState& state, std::vector<ClaimKey> keys) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mu);
  ~Claim();  // requires state.mu; not annotated, because the analysis cannot follow it here
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  QueueState& state_;
  const std::vector<ClaimKey> keys_;
};

}  // namespace nerf
