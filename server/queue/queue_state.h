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
#include "server/queue/job_store.h"
#include "server/queue/queue_observer.h"
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

// A job in memory: the stored record and what only lives while the process does.
struct JobEntry {
  Job job;
  SteadyTime lease_deadline;  // meaningful while HoldsLease(job.state)
  SteadyTime progress_stored_at;
  WatchLog log;
};

// What JobQueue, SceneCatalog and ModelCatalog share: the state under one mutex, and the store that
// every change passes through before memory changes or anybody is told. A change is decided on
// copies, committed, and only then applied: after a failed commit memory is what it was.
// Thread-safe through `mu`. Clock, random source, store, blob index and observer outlive it.
class QueueState {
 public:
  struct Dependencies {
    Clock* clock = nullptr;
    RandomSource* random = nullptr;
    JobStore* store = nullptr;
    BlobIndex* blobs = nullptr;
    QueueObserver* observer = nullptr;  // may be null
  };

  // Loads the store. Leases that were held live for one more TTL from now, so that their holders
  // find back; until then nobody else is granted those jobs.
  static absl::StatusOr<std::unique_ptr<QueueState>> Open(const QueueOptions& options,
                                                          const Dependencies& dependencies);

  // Every blob that something refers to: scenes, checkpoints, models, previews, and the init files
  // of jobs that are not final. What the blob store's collector must keep.
  std::set<std::string> ReachableBlobs() ABSL_LOCKS_EXCLUDED(mu);

  // Commits and reports the time it took. OK means durable.
  absl::Status Commit(const StoreWrite& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Finds what an earlier request with this id made; nullopt for an empty or unknown id.
  // AlreadyExists REQUEST_ID_REUSED when that request was another one (project, kind and
  // fingerprint are compared).
  absl::StatusOr<std::optional<std::string>> FindRequest(const RequestRecord& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void RememberRequest(const RequestRecord& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // What is remembered, as long as requests are, of a job that was deleted: a new one of its id
  // goes on counting, so that neither a lease nor a watch token of the former fits it.
  static RequestRecord RecordOfDeletedJob(const Job& job, absl::Time now);
  // Lets a job that is about to be created go on where a deleted one of its id ended.
  void CountOnFromDeletedJob(Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Keeps the indexes true after a job's state changed (or, without an old state, it is new).
  void Reindex(const JobEntry& entry, std::optional<JobState> old_state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

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
  // QUEUED: method by create_sequence.
  std::map<uint64_t, std::string> queued_jobs ABSL_GUARDED_BY(mu);
  std::set<ResourceKey> leased_jobs ABSL_GUARDED_BY(mu);  // HoldsLease
  std::map<ResourceKey, SceneRecord> scenes ABSL_GUARDED_BY(mu);
  std::map<uint64_t, ResourceKey> scene_order ABSL_GUARDED_BY(mu);
  std::map<ResourceKey, ModelRecord> models ABSL_GUARDED_BY(mu);
  std::map<uint64_t, ResourceKey> model_order ABSL_GUARDED_BY(mu);
  // By project and request id.
  std::map<std::pair<std::string, std::string>, RequestRecord> requests ABSL_GUARDED_BY(mu);
  SteadyTime requests_swept_at ABSL_GUARDED_BY(mu);
  // Who waits for work or for orders, by worker id.
  std::multimap<std::string, std::shared_ptr<WatchSignal>> work_signals ABSL_GUARDED_BY(mu);
  uint64_t next_sequence ABSL_GUARDED_BY(mu) = 1;

 private:
  QueueState(const QueueOptions& options, const Dependencies& dependencies);
  absl::Status Restore(StoredState stored) ABSL_LOCKS_EXCLUDED(mu);
};

}  // namespace nerf
