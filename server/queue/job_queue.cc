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
  // Of the config what was asked for: what follows from it may change with the server's version.
  fingerprint.Add("job").Add(spec.id).Add(spec.display_name).Add(spec.scene);
  fingerprint.Add(spec.requested_config).Add(spec.init.has_value() ? "init" : "scratch");
  if (spec.init.has_value()) {
    fingerprint.Add(static_cast<uint64_t>(spec.init->kind)).Add(spec.init->source.project);
    fingerprint.Add(spec.init->source.id).Add(uint64_t{spec.init->step}).Add(spec.init->scope);
  }
  return fingerprint.Hex();
}

absl::Status CheckSpec(const JobSpec& spec, bool validate_only) {
  RequestCheck check;
  check.RequireId("parent", spec.project);
  check.RequireId("training_job_id", spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName("training_job.display_name", spec.display_name);
  check.RequireId("training_job.scene", spec.scene, /*may_be_empty=*/validate_only);
  if (spec.init.has_value()) {
    check.Require(spec.init->source.project == spec.project, "training_job.config.init",
                  "must be of the same project");
  }
  return check.Result();
}

JobEvent MakeEvent(const Job& job, JobEventKind kind, uint32_t checkpoint_step, absl::Time now) {
  JobEvent event;
  event.sequence = job.last_event_sequence;
  event.kind = kind;
  event.time = now;
  event.state = job.state;
  event.queue_reason = job.queue_reason;
  event.attempt = job.attempt;
  event.worker = job.lease.worker;
  event.progress = job.progress;
  event.checkpoint_step = checkpoint_step;
  return event;
}

}  // namespace

absl::StatusOr<JobEntry*> JobQueue::Find(const ResourceKey& key) {
  const auto found = state_.jobs.find(key);
  if (found == state_.jobs.end()) return ResourceNotFound(JobName(key));
  return &found->second;
}

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

absl::StatusOr<Job> JobQueue::Create(const JobSpec& spec, bool validate_only) {
  NERF_RETURN_IF_ERROR(CheckSpec(spec, validate_only));
  PendingSignals pending;
  MutexLock lock(state_.mu);
  if (!state_.options.projects.contains(spec.project)) {
    return ResourceNotFound("projects/" + spec.project);
  }
  const absl::Time now = state_.clock.WallNow();
  RequestRecord request{RequestRecord::Kind::kJob, spec.project, spec.request_id, "",
                        FingerprintOf(spec),       now};
  NERF_ASSIGN_OR_RETURN(const auto earlier, state_.FindRequest(request));
  if (earlier.has_value()) {
    NERF_ASSIGN_OR_RETURN(const auto entry, Find({spec.project, *earlier}));
    return entry->job;
  }

  Job job;
  job.key = {spec.project, spec.id};
  job.display_name = spec.display_name;
  job.scene = spec.scene;
  job.config = spec.config;
  job.requested_config = spec.requested_config;
  job.init = spec.init;
  job.request_id = spec.request_id;
  job.create_time = now;
  job.create_sequence = state_.next_sequence;
  job.last_event_sequence = 1;
  const ResourceKey scene = {spec.project, spec.scene};
  if (!spec.scene.empty() && !state_.scenes.contains(scene)) {
    return ResourceNotFound(SceneName(scene));
  }
  if (job.init.has_value()) {
    NERF_RETURN_IF_ERROR(ResolveInit(spec, *job.init));
  }
  if (!spec.id.empty() && state_.jobs.contains(job.key)) return ResourceExists(JobName(job.key));
  if (state_.queued_jobs.size() >= state_.options.max_queued_jobs) {
    return WithReason(absl::ResourceExhaustedError(
                          fmt::format("{} jobs are queued already", state_.queued_jobs.size())),
                      reason::kQueueFull);
  }
  while (job.key.id.empty() || (spec.id.empty() && state_.jobs.contains(job.key))) {
    job.key.id = NewShortId("j", state_.random);
  }
  state_.CountOnFromDeletedJob(job);
  if (validate_only) return job;

  request.resource_id = job.key.id;
  StoreWrite write;
  write.jobs.push_back({job, std::nullopt});
  JobEvent event = MakeEvent(job, JobEventKind::kStateChanged, 0, now);
  write.events.emplace_back(job.key, event);
  if (!request.request_id.empty()) write.new_requests.push_back(request);
  NERF_RETURN_IF_ERROR(state_.Commit(write));

  ++state_.next_sequence;
  JobEntry& entry = state_.jobs[job.key];
  entry.job = job;
  entry.progress_stored_at = state_.clock.Now();
  entry.log.Append(std::move(event));
  state_.job_order.emplace(job.create_sequence, job.key);
  state_.RememberRequest(request);
  state_.Reindex(entry, std::nullopt);
  state_.observer.OnJobCreated(job);
  for (const auto& [worker, signal] : state_.work_signals) pending.Add(signal);
  LogInfo("job created", {{"project", job.key.project}, {"job", job.key.id}, {"scene", job.scene}});
  return job;
}

absl::StatusOr<Job> JobQueue::Get(const ResourceKey& key) {
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto entry, Find(key));
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
  size_t n_ahead = 0;
  for (const auto& [sequence, method] : state_.queued_jobs) {
    if (sequence >= job.create_sequence) break;
    if (method == job.config.method) ++n_ahead;
  }
  return n_ahead;
}

std::map<std::string, std::vector<uint64_t>> JobQueue::QueuedByMethod() {
  std::map<std::string, std::vector<uint64_t>> queued;
  MutexLock lock(state_.mu);
  for (const auto& [sequence, method] : state_.queued_jobs) queued[method].push_back(sequence);
  return queued;
}

absl::StatusOr<Job> JobQueue::ChangeState(const ResourceKey& key, const TargetState& target) {
  PendingSignals pending;
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto found, Find(key));
  JobEntry& entry = *found;
  const JobState from = entry.job.state;
  const std::optional<JobState> to = target(from);
  if (!to.has_value()) {
    return StateConflict(fmt::format("{} is {}", JobName(key), JobStateName(from)),
                         {{"state", std::string(JobStateName(from))}});
  }
  if (*to == from) return entry.job;
  NERF_RETURN_IF_ERROR(Move(entry, *to, pending));
  return entry.job;
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
  MutexLock lock(state_.mu);
  const auto found = state_.jobs.find(key);
  if (found == state_.jobs.end()) return ResourceNotFound(JobName(key));
  JobEntry& entry = found->second;
  const Job& job = entry.job;
  if (!IsFinal(job.state)) {
    return StateConflict(
        fmt::format("{} is {}; cancel it first", JobName(key), JobStateName(job.state)),
        {{"state", std::string(JobStateName(job.state))}});
  }
  const RequestRecord remembered = QueueState::RecordOfDeletedJob(job, state_.clock.WallNow());
  StoreWrite write;
  write.deleted_jobs.push_back(key);
  write.trimmed_events.emplace_back(key, job.last_event_sequence);
  write.new_requests.push_back(remembered);
  NERF_RETURN_IF_ERROR(state_.Commit(write));

  state_.RememberRequest(remembered);
  ReleaseBlobs(job.checkpoints);
  ReleasePreview(job.progress.preview_image, std::nullopt);
  const uint64_t create_sequence = job.create_sequence;
  state_.job_order.erase(create_sequence);
  // Who watches has heard that there is an end to read, and may not have come to it yet.
  if (entry.log.n_watchers() > 0) state_.deleted_jobs.emplace(create_sequence, std::move(entry));
  state_.jobs.erase(found);
  LogInfo("job deleted", {{"project", key.project}, {"job", key.id}});
  return absl::OkStatus();
}

absl::StatusOr<CheckpointRecord> JobQueue::GetCheckpoint(const ResourceKey& job,
                                                         std::optional<uint32_t> step) {
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const auto found, Find(job));
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
    // Before the job is looked for: one that another store had was not deleted here.
    if (position->store_epoch != state_.store_epoch) return foreign;
  }
  NERF_ASSIGN_OR_RETURN(const auto found, Find(key));
  JobEntry& entry = *found;
  const uint64_t last = entry.job.last_event_sequence;
  // A position that this store has not reached means that it was set back (an old backup).
  if (position.has_value() && position->sequence > last) return foreign;
  auto signal = std::make_shared<WatchSignal>(std::move(on_new));
  entry.log.Subscribe(signal);
  return std::unique_ptr<Watcher>(new Watcher(&state_, key, entry.job.create_sequence,
                                              std::move(signal),
                                              position.has_value() ? position->sequence : last));
}

absl::Status JobQueue::Move(JobEntry& entry, JobState to, PendingSignals& pending) {
  Job changed = entry.job;
  absl::Status status = Transition(changed, to, state_.clock.WallNow());
  if (!status.ok()) return status;
  return Apply(entry, std::move(changed), JobEventKind::kStateChanged, pending);
}

absl::Status JobQueue::Apply(JobEntry& entry, Job changed, JobEventKind kind,
                             PendingSignals& pending, uint32_t checkpoint_step) {
  const Job& old = entry.job;
  changed.last_event_sequence = old.last_event_sequence + 1;
  JobEvent event = MakeEvent(changed, kind, checkpoint_step, state_.clock.WallNow());
  StoreWrite write;
  write.jobs.push_back({changed, old.lease.epoch});
  write.events.emplace_back(changed.key, event);
  const size_t max_events = state_.options.max_events_per_job;
  if (entry.log.size() >= max_events) {
    write.trimmed_events.emplace_back(changed.key, event.sequence - max_events);
  }
  NERF_RETURN_IF_ERROR(state_.Commit(write));

  const JobState old_state = old.state;
  entry.job = std::move(changed);
  entry.log.Append(std::move(event));
  entry.log.Trim(max_events);
  entry.progress_stored_at = state_.clock.Now();
  state_.Reindex(entry, old_state);
  entry.log.SignalAll(pending);
  const Job& job = entry.job;
  if (job.state == old_state) return absl::OkStatus();

  const bool is_order = job.state == JobState::kPausing || job.state == JobState::kCancelling;
  for (const auto& [worker, signal] : state_.work_signals) {
    if (job.state == JobState::kQueued || (is_order && worker == job.lease.worker)) {
      pending.Add(signal);
    }
  }
  if (IsFinal(job.state)) state_.observer.OnJobFinished(job);
  LogInfo("job moved", {{"project", job.key.project},
                        {"job", job.key.id},
                        {"from", JobStateName(old_state)},
                        {"to", JobStateName(job.state)},
                        {"reason", QueueReasonName(job.queue_reason)},
                        {"worker", job.lease.worker},
                        {"lease_epoch", job.lease.epoch}});
  return absl::OkStatus();
}

QueueStats JobQueue::Stats() {
  MutexLock lock(state_.mu);
  QueueStats stats;
  const absl::Time now = state_.clock.WallNow();
  for (const auto& [key, entry] : state_.jobs) {
    ++stats.jobs[{key.project, entry.job.state}];
    stats.n_watchers += entry.log.n_watchers();
    if (entry.job.state != JobState::kQueued) continue;
    // A job that waits has no later event than that it was queued.
    const JobEvent* const queued = entry.log.At(entry.job.last_event_sequence);
    if (queued == nullptr) continue;
    stats.oldest_queued_age = std::max(stats.oldest_queued_age, now - queued->time);
  }
  for (const auto& [sequence, entry] : state_.deleted_jobs) {
    stats.n_watchers += entry.log.n_watchers();
  }
  stats.n_queued = state_.queued_jobs.size();
  stats.n_leases = state_.leased_jobs.size();
  return stats;
}

}  // namespace nerf
