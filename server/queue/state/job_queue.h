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
#include "nerf/v1/job_service.pb.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/page.h"
#include "server/queue/state/extension.h"
#include "server/queue/state/job_filter.h"
#include "server/queue/state/job_list_watcher.h"
#include "server/queue/state/queue_place.h"
#include "server/queue/state/queue_state.h"
#include "server/queue/state/watcher.h"

namespace nerf {

// What to change of a job; what is unset stays.
struct JobUpdate {
  std::string etag;  // of the job as the caller knows it; empty: not compared
  std::optional<std::string> display_name;
  std::optional<int> priority;
  std::optional<v1::CropBox> crop;
  std::optional<absl::Time> start_by, end_by;                     // InfiniteFuture: none
  std::optional<JobLabels> labels;                                // replaces all
  std::map<std::string, std::optional<std::string>> some_labels;  // a key without value is removed
};

// Statistics of the queue, for metrics.
struct QueueStats {
  std::map<std::pair<std::string, JobState>, size_t> jobs;  // by project and state
  std::map<std::pair<JobKind, JobState>, size_t> jobs_of_kind;
  size_t n_queued = 0;
  size_t n_leases = 0;
  size_t n_watchers = 0;
  absl::Duration oldest_queued_age = absl::ZeroDuration();  // since it was last queued
};

// The clients' side of the queue: accepts jobs, shows them, cancels them. LeaseTable is the
// workers' side.
//
// A call that returns OK is durable; a call that fails changes nothing. Common errors, not repeated
// below: NotFound RESOURCE_NOT_FOUND; Unavailable STORE_READ_ONLY when the store cannot write
// (reads go on). Calls that change something wait for the store; the others never do. Thread-safe.
// `state` outlives the queue and everything it hands out.
class JobQueue {
 public:
  explicit JobQueue(QueueState* state) : state_(*state) {}

  // Queues a job. The same request_id with the same spec returns the earlier job as it is now.
  // `validate_only` checks everything and returns the job as it would be; the scene may then be
  // empty, for one that is still to be created.
  // A training that names a pose job takes its scene, and waits while that job goes on.
  // Errors: InvalidArgument FIELD_INVALID; NotFound (scene, pose job, init); those of check_init;
  // AlreadyExists ALREADY_EXISTS (id) or REQUEST_ID_REUSED; ResourceExhausted QUEUE_FULL or
  // QUOTA_EXCEEDED; FailedPrecondition BLOBS_MISSING (files to pose);
  // FailedPrecondition STATE_CONFLICT (the job to retry has neither failed nor was it cancelled, or
  // is a part of another; the pose job has failed or was cancelled); those of CheckExtension. A job
  // and its parts are created together or not at all, and each counts.
  absl::StatusOr<Job> Create(const JobSpec& spec, bool validate_only = false);
  // Reads the store when a pose job is final, and is the only call that returns the files of one.
  absl::StatusOr<Job> Get(const ResourceKey& key);
  // What is fixed of the job's kind; of kDefaultJobKind where there is no such job.
  const KindTraits& TraitsOfJob(const ResourceKey& key);
  // The jobs that `filter` matches, newest first. InvalidArgument for a bad page.
  absl::StatusOr<Page<ListedJob>> List(const PageRequest& request, const JobFilter& filter = {});
  // Number of the job's parts that have succeeded.
  size_t PartsDone(const Job& job);
  // Whether the job is queued now; `job` may be an older copy.
  bool IsQueued(const Job& job);
  // Where a queued job stands; `job` may be an older copy.
  QueuePlace PlaceOf(const Job& job);
  // Refused here and below: changes of a job that is a part of another, FailedPrecondition
  // STATE_CONFLICT; what a job of its kind cannot do, FailedPrecondition KIND_CANNOT.
  // Cancels: at once in QUEUED and PAUSED, and where no worker holds a part of it, otherwise
  // through CANCELLING, in which the worker first commits a checkpoint with `keep_checkpoint`. May
  // be repeated; the last call decides about the checkpoint. Errors: FailedPrecondition
  // STATE_CONFLICT when the job has succeeded or failed.
  absl::StatusOr<Job> Cancel(const ResourceKey& key, bool keep_checkpoint = false);
  // Changes a job in any state. Errors: InvalidArgument FIELD_INVALID; Aborted ETAG_MISMATCH.
  absl::StatusOr<Job> Update(const ResourceKey& key, const JobUpdate& update);
  // QUEUED -> PAUSED, PREPARING and RUNNING -> PAUSING. May be repeated. Errors: FailedPrecondition
  // STATE_CONFLICT.
  absl::StatusOr<Job> Pause(const ResourceKey& key);
  // PAUSED -> QUEUED; PAUSING -> PREPARING until its worker has committed the checkpoint, then
  // QUEUED. May be repeated. Errors: FailedPrecondition STATE_CONFLICT.
  absl::StatusOr<Job> Resume(const ResourceKey& key);
  // Deletes a job that is final, with its parts, checkpoints and events. Models made of it stay,
  // and its watchers can still read its events to the end. Trainings that wait for a pose job start
  // or fail before it is deleted. Errors: FailedPrecondition STATE_CONFLICT, also while a part is
  // not final.
  absl::Status Delete(const ResourceKey& key);
  // Deletes those of the jobs, of any kind, that are final and that nobody is changing, and their
  // parts, in one commit. Returns their number.
  absl::StatusOr<size_t> DeleteEnded(std::span<const ResourceKey> keys);
  // The curves and previews of a training. Reads the store when the job is final.
  absl::StatusOr<v1::ListJobMetricsResponse> GetCurve(const ResourceKey& job);
  // The kept checkpoint of a step; without a step the newest.
  absl::StatusOr<CheckpointRecord> GetCheckpoint(const ResourceKey& job,
                                                 std::optional<uint32_t> step);
  // Follows a job from now (empty token) or from a token. `on_new` runs, on any thread and without
  // locks held, whenever TryNext may have something: it should only wake the reader.
  // Errors: InvalidArgument FIELD_INVALID (bad token); DataLoss EPOCH_MISMATCH (a token of another
  // store, or of a position that this store has not reached).
  absl::StatusOr<std::unique_ptr<Watcher>> Watch(const ResourceKey& key, std::string_view token,
                                                 std::function<void()> on_new);

  // Follows the jobs of a project; see JobListWatcher::Open.
  absl::StatusOr<std::unique_ptr<JobListWatcher>> WatchList(JobListRequest request,
                                                            std::function<void()> on_new);

  // Signs the page tokens of lists that others keep.
  const TokenSealer& token_sealer() const { return *state_.token_sealer; }

  QueueStats Stats();

 private:
  // Moves a job to `target(state)`. Does nothing if the job is in that state. nullopt means
  // STATE_CONFLICT.
  using TargetState = std::function<std::optional<JobState>(JobState from)>;
  // `cannot` as of RequireKind, of jobs without checkpoints.
  absl::StatusOr<Job> ChangeState(const ResourceKey& key, std::string_view cannot,
                                  const TargetState& target);
  // Fills in what a retry or an extension takes from the job that it is of; its last checkpoint is
  // added to `checkpoints`.
  absl::Status TakeOver(JobSpec& spec, std::vector<CheckpointRecord>* checkpoints)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // A job that a client may change by itself (CheckNoPart), once nobody else is changing it.
  absl::StatusOr<JobEntry*> FindChangeable(const ResourceKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The jobs of the parts of `whole`, whose ids are added to it.
  std::vector<Job> MakeParts(const JobSpec& spec, Job* whole)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Commits new jobs with the request that made them, and adds them to memory.
  absl::Status StoreNew(std::span<const Job> jobs, const RequestRecord& request, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // The job and its parts, if all of them are final and nobody is changing them; else empty.
  std::vector<ResourceKey> Deletable(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Deletes jobs that are Deletable.
  absl::Status DeleteJobs(const std::vector<ResourceKey>& keys)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Makes the job of `spec`; checks the scene and, if it is needed, init.
  absl::StatusOr<Job> MakeJob(const JobSpec& spec, bool needs_init, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Finds the model that a render or export job is of.
  absl::StatusOr<FoundModel> FindSource(const ModelSource& source)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  // Finds the file that training.init names, and checks it; chooses it where that is left open.
  absl::Status ResolveInit(const JobSpec& spec, TrainingSpec& training)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  void ChooseInit(const JobSpec& spec, TrainingSpec& training)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
};

}  // namespace nerf
