#include "server/queue/job_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/request_check.h"
#include "server/queue/resource_error.h"

namespace nerf {
namespace {

std::string FingerprintOf(const JobSpec& spec) {
  Fingerprint fingerprint;
  // The config as requested: defaults may change with the server's version.
  fingerprint.Add("job").Add(spec.id).Add(spec.display_name).Add(spec.training.scene);
  fingerprint.Add(spec.training.requested_config)
      .Add(spec.training.init.has_value() ? "init" : "scratch");
  if (spec.training.init.has_value()) {
    fingerprint.Add(static_cast<uint64_t>(spec.training.init->kind))
        .Add(spec.training.init->source.project);
    fingerprint.Add(spec.training.init->source.id)
        .Add(uint64_t{spec.training.init->step})
        .Add(spec.training.init->scope);
  }
  return fingerprint.Hex();
}

absl::Status CheckSpec(const JobSpec& spec, bool validate_only) {
  RequestCheck check;
  check.RequireId("parent", spec.project);
  check.RequireId("training_job_id", spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName("training_job.display_name", spec.display_name);
  check.RequireId("training_job.scene", spec.training.scene, /*may_be_empty=*/validate_only);
  if (spec.training.init.has_value()) {
    check.Require(spec.training.init->source.project == spec.project, "training_job.config.init",
                  "must be of the same project");
  }
  return check.Result();
}

}  // namespace

absl::Status JobQueue::ResolveInit(const JobSpec& spec, InitReference& init) {
  const auto use = [&](const BlobRef& blob, const std::vector<TensorRecord>& tensors) {
    init.blob = blob;
    return spec.check_init ? spec.check_init(tensors) : absl::OkStatus();
  };
  if (init.kind == InitReference::Kind::kModel) {
    const auto model = state_.models.find(init.source);
    if (model == state_.models.end()) return ResourceNotFound(ModelName(init.source));
    return use(model->second.blob, model->second.tensors);
  }
  const auto job = state_.jobs.find(init.source);
  if (job != state_.jobs.end()) {
    for (const CheckpointRecord& checkpoint : job->second.job.checkpoints) {
      if (checkpoint.step == init.step) return use(checkpoint.model_blob, checkpoint.tensors);
    }
  }
  return ResourceNotFound(CheckpointName(init.source, init.step));
}

absl::StatusOr<Job> JobQueue::MakeJob(const JobSpec& spec, absl::Time now) {
  Job job;
  job.key = {spec.project, spec.id};
  job.display_name = spec.display_name;
  job.training = spec.training;
  job.request_id = spec.request_id;
  job.create_time = now;
  job.last_event_sequence = 1;
  const ResourceKey scene = {spec.project, spec.training.scene};
  if (!scene.id.empty() && !state_.scenes.contains(scene)) {
    return ResourceNotFound(SceneName(scene));
  }
  if (job.training.init.has_value()) {
    NERF_RETURN_IF_ERROR(ResolveInit(spec, *job.training.init));
  }
  const auto is_taken = [&] {
    state_.mu.AssertHeld();
    return state_.jobs.contains(job.key) || state_.jobs_in_creation.contains(job.key);
  };
  if (!spec.id.empty() && is_taken()) return ResourceExists(JobName(job.key));
  const size_t n_queued = state_.queued_jobs.size() + state_.jobs_in_creation.size();
  if (n_queued >= state_.options.max_queued_jobs) {
    return WithReason(
        absl::ResourceExhaustedError(fmt::format("{} jobs are queued already", n_queued)),
        reason::kQueueFull);
  }
  while (job.key.id.empty() || (spec.id.empty() && is_taken())) {
    job.key.id = NewShortId("j", state_.random);
  }
  state_.CountOnFromDeletedJob(job);
  return job;
}

absl::StatusOr<Job> JobQueue::Create(const JobSpec& spec, bool validate_only) {
  NERF_RETURN_IF_ERROR(CheckSpec(spec, validate_only));
  QueueLock lock(state_);
  if (!state_.options.projects.contains(spec.project)) {
    return ResourceNotFound("projects/" + spec.project);
  }
  // Wait for changes that are being stored under these names.
  const ClaimKey request_key{ClaimKey::Kind::kRequest, {spec.project, spec.request_id}};
  std::vector<ClaimKey> names = {{ClaimKey::Kind::kScene, {spec.project, spec.training.scene}},
                                 request_key,
                                 {ClaimKey::Kind::kJob, {spec.project, spec.id}}};
  if (const auto& init = spec.training.init; init.has_value()) {
    names.push_back(
        {init->kind == InitReference::Kind::kModel ? ClaimKey::Kind::kModel : ClaimKey::Kind::kJob,
         init->source});
  }
  state_.AwaitUnclaimed(names);
  const absl::Time now = state_.clock.WallNow();
  RequestRecord request{RequestRecord::Kind::kJob, spec.project, spec.request_id, "",
                        FingerprintOf(spec),       state_.Age()};
  NERF_ASSIGN_OR_RETURN(const auto earlier, state_.FindRequest(request));
  if (earlier.has_value()) {
    NERF_ASSIGN_OR_RETURN(const JobEntry* entry, state_.FindJob({spec.project, *earlier}));
    return entry->job;
  }
  NERF_ASSIGN_OR_RETURN(Job job, MakeJob(spec, now));
  job.create_sequence = state_.next_sequence;
  if (validate_only) return job;

  ++state_.next_sequence;
  request.resource_id = job.key.id;
  StoreWrite write;
  write.jobs.push_back({job, std::nullopt});
  const JobEvent event = MakeJobEvent(job, JobEventKind::kStateChanged, 0, now);
  write.events.emplace_back(job.key, event);
  std::vector<ClaimKey> claimed = {{ClaimKey::Kind::kJob, job.key}};
  if (!request.request_id.empty()) {
    write.new_requests.push_back(request);
    claimed.push_back(request_key);
  }
  Claim claim(state_, std::move(claimed));
  state_.jobs_in_creation.emplace(job.key, job);
  for (const BlobRef& blob : BlobsOf(job)) state_.NoteReference(blob);
  const absl::Status committed = state_.Commit(std::move(write));
  state_.jobs_in_creation.erase(job.key);
  NERF_RETURN_IF_ERROR(committed);

  JobEntry& entry = state_.jobs[job.key];
  entry.job = job;
  entry.progress_stored_at = state_.clock.Now();
  entry.log.Append(event);
  state_.job_order.emplace(job.create_sequence, job.key);
  state_.RememberRequest(request);
  state_.Reindex(entry, std::nullopt);
  state_.observer.OnJobCreated(job);
  for (const auto& [worker, signal] : state_.work_signals) state_.wake.push_back(signal);
  LogInfo("job created",
          {{"project", job.key.project}, {"job", job.key.id}, {"scene", job.training.scene}});
  return job;
}

absl::StatusOr<Job> JobQueue::Get(const ResourceKey& key) {
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const JobEntry* entry, state_.FindJob(key));
  return entry->job;
}

absl::StatusOr<Page<Job>> JobQueue::List(const PageRequest& request) {
  MutexLock lock(state_.mu);
  return ListPage<Job>("jobs", request, state_.job_order, state_.jobs,
                       [](const auto& entry) { return entry.job; });
}

bool JobQueue::IsQueued(const Job& job) {
  MutexLock lock(state_.mu);
  return state_.queued_jobs.contains(job.create_sequence);
}

size_t JobQueue::QueuedAhead(const Job& job) {
  MutexLock lock(state_.mu);
  const std::string_view wanted = CapabilityOf(job);
  size_t n_ahead = 0;
  for (const auto& [sequence, capability] : state_.queued_jobs) {
    if (sequence >= job.create_sequence) break;
    if (capability == wanted) ++n_ahead;
  }
  return n_ahead;
}

absl::Duration JobQueue::WaitsAside(const Job& job) {
  MutexLock lock(state_.mu);
  const auto found = state_.jobs.find(job.key);
  if (found == state_.jobs.end() || found->second.job.state != JobState::kQueued) {
    return absl::ZeroDuration();
  }
  return std::max(absl::ZeroDuration(), found->second.aside_until - state_.clock.Now());
}

std::map<std::string, std::vector<uint64_t>> JobQueue::QueuedByCapability() {
  std::map<std::string, std::vector<uint64_t>> queued;
  MutexLock lock(state_.mu);
  for (const auto& [sequence, capability] : state_.queued_jobs) {
    queued[capability].push_back(sequence);
  }
  return queued;
}

absl::StatusOr<Job> JobQueue::ChangeState(const ResourceKey& key, const TargetState& target) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindUnclaimedJob(key));
  const JobState from = entry->job.state;
  const std::optional<JobState> to = target(from);
  if (!to.has_value()) {
    return StateConflict(fmt::format("{} is {}", JobName(key), JobStateName(from)),
                         {{"state", std::string(JobStateName(from))}});
  }
  if (*to == from) return entry->job;
  JobChange change(*entry, state_.clock.WallNow());
  NERF_RETURN_IF_ERROR(change.Move(*to));
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::Cancel(const ResourceKey& key) {
  return ChangeState(key, [](JobState from) -> std::optional<JobState> {
    if (from == JobState::kCancelling || from == JobState::kCancelled) return from;
    if (IsFinal(from)) return std::nullopt;
    return HoldsLease(from) ? JobState::kCancelling : JobState::kCancelled;
  });
}

absl::StatusOr<Job> JobQueue::Pause(const ResourceKey& key) {
  return ChangeState(key, [](JobState from) -> std::optional<JobState> {
    if (from == JobState::kPausing || from == JobState::kPaused) return from;
    if (from != JobState::kRunning) return std::nullopt;
    return JobState::kPausing;
  });
}

absl::StatusOr<Job> JobQueue::Resume(const ResourceKey& key) {
  return ChangeState(key, [](JobState from) -> std::optional<JobState> {
    if (from == JobState::kPaused) return JobState::kQueued;
    const bool goes_on =
        from == JobState::kQueued || from == JobState::kPreparing || from == JobState::kRunning;
    return goes_on ? std::optional(from) : std::nullopt;
  });
}

absl::Status JobQueue::Delete(const ResourceKey& key) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindUnclaimedJob(key));
  const Job& job = entry->job;
  if (!IsFinal(job.state)) {
    return StateConflict(
        fmt::format("{} is {}; cancel it first", JobName(key), JobStateName(job.state)),
        {{"state", std::string(JobStateName(job.state))}});
  }
  const RequestRecord remembered = QueueState::RecordOfDeletedJob(job, state_.Age());
  StoreWrite write;
  write.deleted_jobs.push_back(key);
  write.trimmed_events.emplace_back(key, job.last_event_sequence);
  write.new_requests.push_back(remembered);
  Claim claim(state_, {{ClaimKey::Kind::kJob, key}});
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));

  state_.RememberRequest(remembered);
  for (const BlobRef& blob : BlobsOf(job)) state_.blobs.Release(blob);
  --state_.job_counts[{key.project, job.state}];
  const uint64_t create_sequence = job.create_sequence;
  state_.job_order.erase(create_sequence);
  // Keep its events for watchers that have not read all of them.
  if (entry->log.n_watchers() > 0) state_.deleted_jobs.emplace(create_sequence, std::move(*entry));
  state_.jobs.erase(key);
  LogInfo("job deleted", {{"project", key.project}, {"job", key.id}});
  return absl::OkStatus();
}

absl::StatusOr<CheckpointRecord> JobQueue::GetCheckpoint(const ResourceKey& job,
                                                         std::optional<uint32_t> step) {
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const JobEntry* found, state_.FindJob(job));
  const std::vector<CheckpointRecord>& checkpoints = found->job.checkpoints;
  if (!step.has_value()) {
    if (checkpoints.empty()) return NoCheckpoint(JobName(job));
    return checkpoints.back();
  }
  for (const CheckpointRecord& checkpoint : checkpoints) {
    if (checkpoint.step == *step) return checkpoint;
  }
  return ResourceNotFound(CheckpointName(job, *step));
}

absl::StatusOr<std::unique_ptr<Watcher>> JobQueue::Watch(const ResourceKey& key,
                                                         std::string_view token,
                                                         std::function<void()> on_new) {
  std::optional<WatchPosition> position;
  if (!token.empty()) {
    NERF_ASSIGN_OR_RETURN(auto parsed, ParseWatchToken(token));
    position = std::move(parsed);
  }
  const absl::Status foreign =
      WithReason(absl::DataLossError("the token is of another store: watch without it"),
                 reason::kEpochMismatch);
  MutexLock lock(state_.mu);
  if (position.has_value()) {
    if (position->job != key) {
      return InvalidFieldsError({{"resume_token", "belongs to another job"}});
    }
    // Checked before the job is looked up: a job of another store must not be reported as not
    // found.
    if (position->store_epoch != state_.store_epoch) return foreign;
  }
  NERF_ASSIGN_OR_RETURN(JobEntry * found, state_.FindJob(key));
  JobEntry& entry = *found;
  const uint64_t last = entry.job.last_event_sequence;
  // The token is ahead of the store, so an older backup was restored.
  if (position.has_value() && position->sequence > last) return foreign;
  auto signal = std::make_shared<WatchSignal>(std::move(on_new));
  entry.log.Subscribe(signal);
  ++state_.n_watchers;
  return std::unique_ptr<Watcher>(new Watcher(&state_, key, entry.job.create_sequence,
                                              std::move(signal),
                                              position.has_value() ? position->sequence : last));
}

QueueStats JobQueue::Stats() {
  MutexLock lock(state_.mu);
  QueueStats stats;
  stats.jobs = state_.job_counts;
  if (!state_.queued_since.empty()) {
    stats.oldest_queued_age = state_.clock.Now() - *state_.queued_since.begin();
  }
  stats.n_watchers = state_.n_watchers;
  stats.n_queued = state_.queued_jobs.size();
  stats.n_leases = state_.lease_deadlines.size();
  return stats;
}

}  // namespace nerf
