#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "server/queue/blob_ref.h"
#include "server/queue/job_change.h"
#include "server/queue/job_store.h"
#include "server/queue/lease.h"
#include "server/queue/queue_observer.h"
#include "server/queue/store_writer.h"
#include "server/queue/watch_log.h"

namespace nerf {

struct QueueOptions {
  absl::Duration lease_ttl = absl::Seconds(30);
  int max_attempts = 3;  // engine crashes in a row without a new checkpoint, then FAILED
  size_t max_queued_jobs = 10'000;
  size_t max_events_per_job = 1'000;  // older ones are dropped; a watch then shows a gap
  size_t n_kept_checkpoints = 3;      // beside the best and the promoted ones
  // Then a job that is final keeps its last event alone; a watch from before shows a gap.
  absl::Duration final_events_retention = absl::Hours(1);
  absl::Duration progress_store_interval = absl::Seconds(10);
  absl::Duration request_retention = absl::Hours(24 * 7);
  std::set<std::string> projects = {"default"};  // those that exist
};

// What an operation holds while its write is on its way to the store: nobody else changes it.
struct ClaimKey {
  enum class Kind { kJob, kScene, kModel, kRequest };
  Kind kind = Kind::kJob;
  ResourceKey key;  // of kRequest the project and the request id

  auto operator<=>(const ClaimKey&) const = default;
};

// What JobQueue, LeaseTable, SceneCatalog and ModelCatalog share: the state under one mutex, and
// the store that every change passes through before memory changes or anybody is told.
//
// A change is decided on copies, claimed, committed, and only then applied; a refused commit leaves
// memory as it was. The mutex is free while the store works. What is claimed meanwhile is changed
// by nobody else, and readers see it as it was before:
//
//   QueueLock lock(state);
//   state.AwaitUnclaimed(keys);      // nobody else is at it
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
    // The machine's clock, for the time that commits take; null: `clock`.
    const Clock* machine_clock = nullptr;
    // Whether a thread of its own brings writes to the store, many at a time. Without it every
    // commit is made on the spot, with the lock held: for tests that want one thread.
    bool groups_commits = false;
  };

  // Loads the store. Leases that were held live for one more TTL from now, so that their holders
  // find back; until then nobody else is granted those jobs.
  static absl::StatusOr<std::unique_ptr<QueueState>> Open(const QueueOptions& options,
                                                          const Dependencies& dependencies);
  // Brings what was submitted to its end. Nobody may wait in Commit any more.
  ~QueueState();

  // Every blob that something refers to: scenes, jobs (BlobsOf in job_kind.h) and models, also what
  // came to be referred to during the call. The blob store's collector must keep them. Holds the
  // lock for moments only, however many there are.
  std::set<std::string> ReachableBlobs() ABSL_LOCKS_EXCLUDED(mu);

  // Whether the store has been at one commit for longer than any healthy disk takes.
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

  // The job's entry as it is, even when a change of it is on its way.
  absl::StatusOr<JobEntry*> FindJob(const ResourceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Waits until nobody else changes the job, then as FindJob.
  absl::StatusOr<JobEntry*> FindUnclaimedJob(const ResourceKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Commits a change of the unclaimed job `entry`, applies it and wakes whoever has to hear of it.
  // A change without events is OK and does nothing.
  absl::Status Apply(JobEntry& entry, JobChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The same without waiting. `then` runs with the lock held when the change was applied or
  // refused.
  void ApplyLater(JobEntry& entry, JobChange change, Done then = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Finds what an earlier request with this id made; nullopt for an empty or unknown id.
  // AlreadyExists REQUEST_ID_REUSED when that request was another one (project, kind and
  // fingerprint are compared).
  absl::StatusOr<std::optional<std::string>> FindRequest(const RequestRecord& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void RememberRequest(const RequestRecord& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // What is remembered of a deleted job for as long as requests are: a new job of its id goes on
  // counting, so that no lease and no watch token of the deleted one fits it.
  static RequestRecord RecordOfDeletedJob(const Job& job, absl::Time now);
  // Lets a job that is about to be created count on from a deleted one of its id.
  void CountOnFromDeletedJob(Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Updates the indexes after a job's state changed (or, without an old state, it is new).
  void Reindex(JobEntry& entry, std::optional<JobState> old_state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Tells a ReachableBlobs that is under way what something refers to from now on.
  void NoteReference(const BlobRef& blob) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // FailedPrecondition BLOBS_MISSING naming those that are not here.
  absl::Status RequireBlobs(const std::vector<BlobRef>& needed);

  const QueueOptions options;
  Clock& clock;
  RandomSource& random;
  JobStore& store;
  BlobIndex& blobs;
  QueueObserver& observer;

  Mutex mu;
  std::string store_epoch;  // const after Open
  std::map<ResourceKey, JobEntry> jobs ABSL_GUARDED_BY(mu);
  // Deleted, but their events are still being read: by create_sequence, until the last watcher
  // goes.
  std::map<uint64_t, JobEntry> deleted_jobs ABSL_GUARDED_BY(mu);
  // By order of submission: listing, and the order of placement.
  std::map<uint64_t, ResourceKey> job_order ABSL_GUARDED_BY(mu);
  // QUEUED: what a worker has to offer (CapabilityOf), by create_sequence.
  std::map<uint64_t, std::string> queued_jobs ABSL_GUARDED_BY(mu);
  std::multiset<SteadyTime> queued_since ABSL_GUARDED_BY(mu);  // of the same jobs
  // When the leases that are held run out, of the jobs for which HoldsLease.
  std::map<LeaseKey, SteadyTime> lease_deadlines ABSL_GUARDED_BY(mu);
  std::map<std::pair<std::string, JobState>, size_t> job_counts ABSL_GUARDED_BY(mu);  // by project
  // Jobs whose creation is on its way to the store: they refer to scenes, models and blobs already.
  std::map<ResourceKey, Job> jobs_in_creation ABSL_GUARDED_BY(mu);
  std::map<ResourceKey, SceneRecord> scenes ABSL_GUARDED_BY(mu);
  std::map<uint64_t, ResourceKey> scene_order ABSL_GUARDED_BY(mu);
  std::map<ResourceKey, ModelRecord> models ABSL_GUARDED_BY(mu);
  std::map<uint64_t, ResourceKey> model_order ABSL_GUARDED_BY(mu);
  // By project and request id.
  std::map<std::pair<std::string, std::string>, RequestRecord> requests ABSL_GUARDED_BY(mu);
  // The same by age. An entry whose request was replaced by a newer one means nothing.
  std::multimap<absl::Time, std::pair<std::string, std::string>> request_order ABSL_GUARDED_BY(mu);
  // Who waits for work or for orders, by worker id.
  std::multimap<std::string, std::shared_ptr<WatchSignal>> work_signals ABSL_GUARDED_BY(mu);
  // Who has to hear of what changed under the lock, once it is free (QueueLock).
  std::vector<std::shared_ptr<WatchSignal>> wake ABSL_GUARDED_BY(mu);
  size_t n_watchers ABSL_GUARDED_BY(mu) = 0;
  uint64_t next_sequence ABSL_GUARDED_BY(mu) = 1;

 private:
  friend class Claim;
  QueueState(const QueueOptions& options, const Dependencies& dependencies);
  absl::Status Restore(StoredState stored) ABSL_LOCKS_EXCLUDED(mu);
  void Deliver(std::vector<StoreWriter::Finished> finished, absl::Duration duration)
      ABSL_LOCKS_EXCLUDED(mu);
  void Committed(const absl::Status& status, absl::Duration duration)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  StoreWrite WriteOf(const JobEntry& entry, const JobChange& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Makes a committed change the truth.
  void Adopt(JobEntry& entry, JobChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void WakeWorkers(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Adds the blobs of up to a slice of `records`, from the first one after `*from` on. False at the
  // end.
  template <typename Records, typename BlobsOfRecord>
  bool ReachSlice(Records QueueState::*records, ResourceKey* from, BlobsOfRecord blobs_of,
                  std::set<std::string>* reachable) ABSL_LOCKS_EXCLUDED(mu);

  const Clock& machine_clock_;
  // What came to be referred to since a ReachableBlobs began; unset without one.
  std::optional<std::set<std::string>> new_references_ ABSL_GUARDED_BY(mu);
  Mutex reach_mu_;  // one ReachableBlobs at a time; taken before mu
  std::set<ClaimKey> claims_ ABSL_GUARDED_BY(mu);
  CondVar claim_lifted_;
  SteadyTime next_error_log_ ABSL_GUARDED_BY(mu);
  std::unique_ptr<StoreWriter> writer_;  // null when commits are made on the spot
};

// Holds the queue's lock for a scope in which something may change, and wakes whoever has to hear
// of it (QueueState::wake) once the lock is free.
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

// Claims keys that are unclaimed for a scope. Requires: the lock is held at both ends of it.
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
