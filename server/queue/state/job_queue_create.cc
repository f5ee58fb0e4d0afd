#include "server/queue/state/job_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/log_options.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/jobs/any_training.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/part_jobs.h"
#include "server/queue/state/pose_jobs.h"
#include "server/queue/state/quota.h"

namespace nerf {

absl::StatusOr<FoundModel> JobQueue::FindSource(const ModelSource& source) {
  if (!source.from_checkpoint) {
    const ModelRecord* const model = state_.FindModel(source.source);
    if (model == nullptr) return ResourceNotFound(ModelName(source.source));
    return FoundModel{model->blob, model->method, model->crop, model->step};
  }
  NERF_ASSIGN_OR_RETURN(const JobEntry* found, state_.FindJob(source.source));
  const Job& job = found->job;
  const CheckpointRecord* checkpoint = nullptr;
  for (const CheckpointRecord& each : job.checkpoints) {
    if (!source.step.has_value() || each.step == *source.step) checkpoint = &each;
  }
  if (checkpoint == nullptr && !source.step.has_value()) {
    return NoCheckpoint(JobName(source.source));
  }
  if (checkpoint == nullptr) {
    return ResourceNotFound(CheckpointName(source.source, *source.step));
  }
  return FoundModel{checkpoint->model_blob, job.training.config.method(), job.crop,
                    checkpoint->step};
}

absl::StatusOr<Job> JobQueue::MakeJob(const JobSpec& spec, bool needs_init, absl::Time now) {
  Job job;
  job.key = {spec.project, spec.id};
  job.display_name = spec.display_name;
  job.kind = spec.kind;
  job.priority = spec.priority;
  job.labels = spec.labels;
  job.crop = spec.crop;
  job.retry_of = spec.retry_of;
  job.extension_of = spec.extension.of;
  job.start_by = spec.start_by;
  job.end_by = spec.end_by;
  job.training = spec.training;
  job.render = spec.render;
  job.pose = spec.pose;
  job.exporting = spec.exporting;
  job.expected_bytes = spec.expected_bytes;
  job.request_id = spec.request_id;
  job.origin = spec.origin;
  job.create_time = now;
  job.last_event_sequence = 1;
  // Not in CheckSpec: a repeated request finds its job even after the deadline.
  RequestCheck check;
  CheckDeadline("job.start_by_time", job, spec.start_by, now, check);
  CheckDeadline("job.end_by_time", job, spec.end_by, now, check);
  NERF_RETURN_IF_ERROR(check.Result());
  const ResourceKey scene = {spec.project, SceneReadBy(job)};
  if (!spec.training.pose_job.empty()) {
    NERF_RETURN_IF_ERROR(AwaitPoses(state_, job));
  } else if (!scene.id.empty() && state_.FindScene(scene) == nullptr) {
    return ResourceNotFound(SceneName(scene));
  }
  const KindPolicy& kind = PolicyOf(job);
  if (const ModelSource* const source = kind.SourceOf(spec)) {
    NERF_ASSIGN_OR_RETURN(const FoundModel found, FindSource(*source));
    kind.UseModel(*source, found, job);
  }
  if (kind.traits().makes_scene) NERF_RETURN_IF_ERROR(ReserveScene(state_, job));
  if (needs_init) NERF_RETURN_IF_ERROR(ResolveInit(spec, job.training));
  const auto is_taken = [&] {
    state_.mu.AssertHeld();
    return state_.IsJobTaken(job.key);
  };
  if (!spec.id.empty() && is_taken()) return ResourceExists(JobName(job.key));
  const size_t n_jobs = 1 + spec.parts.size();
  NERF_RETURN_IF_ERROR(CheckNewJob(state_, spec.project, n_jobs));
  NERF_RETURN_IF_ERROR(CheckNewRecord(state_, spec.project, n_jobs * BytesOf(job)));
  while (job.key.id.empty() || (spec.id.empty() && is_taken())) {
    job.key.id = NewShortId(kind.traits().id_prefix, state_.random);
  }
  state_.requests().CountOnFromDeletedJob(job);
  return job;
}

absl::Status JobQueue::TakeOver(JobSpec& spec, std::vector<CheckpointRecord>* checkpoints) {
  NERF_ASSIGN_OR_RETURN(const JobEntry* entry, state_.FindJob({spec.project, spec.EarlierJob()}));
  const Job& job = entry->job;
  const bool is_retry = !spec.retry_of.empty();
  NERF_RETURN_IF_ERROR(RequireKind(job, TraitsOf(job).has_checkpoints,
                                   is_retry ? "cannot be retried" : "cannot be extended"));
  if (!is_retry) NERF_RETURN_IF_ERROR(CheckExtension(job, spec.extension));
  if (is_retry && job.state != JobState::kFailed && job.state != JobState::kCancelled) {
    return StateConflict(
        fmt::format("{} is {}; only jobs that failed or were cancelled are retried",
                    JobName(job.key), JobStateName(job.state)),
        {{"state", std::string(JobStateName(job.state))}});
  }
  spec.display_name = job.display_name;
  spec.priority = job.priority;
  spec.labels = job.labels;
  spec.crop = job.crop;
  spec.training = job.training;
  // Its scene was there, and outlives the pose job.
  if (!job.awaits_poses) spec.training.pose_job.clear();
  if (!is_retry) Extend(spec.extension, &spec.training);
  spec.check_init = nullptr;  // it was checked when that job was created
  NERF_RETURN_IF_ERROR(CheckNoPart(state_, job));
  for (const JobEntry* part : PartsOfJob(state_, job)) {
    PartSpec& again = spec.parts.emplace_back();
    again.config = part->job.training.config;
    again.retry_of = part->job.key.id;
    if (part->job.checkpoints.empty()) continue;
    again.resume = part->job.checkpoints.back();
    again.resume->promoted = false;
  }
  if (!job.checkpoints.empty()) {
    checkpoints->push_back(job.checkpoints.back());
    checkpoints->back().promoted = false;
  }
  return absl::OkStatus();
}

absl::StatusOr<Job> JobQueue::Create(const JobSpec& requested, bool validate_only) {
  const KindPolicy& kind = PolicyOf(requested.kind);
  RequestCheck check;
  check.RequireId("parent", requested.project);
  CheckJobNames(requested, check);
  check.Add(kind.CheckSpec(requested, validate_only));
  NERF_RETURN_IF_ERROR(check.Result());
  JobSpec spec = requested;
  std::vector<CheckpointRecord> checkpoints;
  // Without the lock, because it reads the file system. Present blobs are not collected meanwhile
  // (BlobIndex).
  std::vector<BlobRef> inputs;
  for (const SceneFileRecord& file : spec.pose.files) inputs.push_back(file.blob);
  const absl::Status present = state_.RequireBlobs(inputs);
  const std::string fingerprint = kind.FingerprintOf(requested);
  QueueLock lock(state_);
  // Without a list every project exists: who may use it was decided before.
  const std::set<std::string>& projects = state_.options.projects;
  if (!projects.empty() && !projects.contains(spec.project)) {
    return ResourceNotFound("projects/" + spec.project);
  }
  if (!spec.EarlierJob().empty()) {
    // For its scene, which never changes.
    const JobEntry* const found = state_.FindEntry({spec.project, spec.EarlierJob()});
    if (found != nullptr) spec.training.scene = found->job.training.scene;
  }
  // Wait for changes that are being stored under these names.
  const ClaimKey request_key{ClaimKey::Kind::kRequest, {spec.project, spec.request_id}};
  std::vector<ClaimKey> names = {{ClaimKey::Kind::kScene, {spec.project, spec.training.scene}},
                                 request_key,
                                 {ClaimKey::Kind::kJob, {spec.project, spec.id}},
                                 {ClaimKey::Kind::kJob, {spec.project, spec.EarlierJob()}},
                                 {ClaimKey::Kind::kJob, {spec.project, spec.training.pose_job}}};
  if (const auto& init = spec.training.init; init.has_value() && init->IsNamed()) {
    names.push_back(
        {init->kind == InitReference::Kind::kModel ? ClaimKey::Kind::kModel : ClaimKey::Kind::kJob,
         init->source});
  }
  if (const ModelSource* const model = kind.SourceOf(spec)) {
    names.push_back(
        {model->from_checkpoint ? ClaimKey::Kind::kJob : ClaimKey::Kind::kModel, model->source});
  }
  if (!spec.pose.scene.empty()) {
    names.push_back({ClaimKey::Kind::kScene, {spec.project, spec.pose.scene}});
  }
  if (!spec.pose.into.empty()) {
    names.push_back({ClaimKey::Kind::kScene, {spec.project, spec.pose.into}});
  }
  state_.AwaitUnclaimed(names);
  const absl::Time now = state_.clock.WallNow();
  RequestRecord request{
      RequestRecord::Kind::kJob, spec.project, spec.request_id, "", fingerprint, state_.Age()};
  NERF_ASSIGN_OR_RETURN(const auto earlier, state_.requests().Find(request));
  if (earlier.has_value()) {
    NERF_ASSIGN_OR_RETURN(const JobEntry* entry, state_.FindJob({spec.project, *earlier}));
    return entry->job;
  }
  NERF_RETURN_IF_ERROR(present);
  if (!spec.EarlierJob().empty()) NERF_RETURN_IF_ERROR(TakeOver(spec, &checkpoints));
  if (!checkpoints.empty() && !spec.parts.empty()) {
    // It was merged, and one worker goes on from there.
    spec.parts.clear();
    spec.training.workers = WorkerCount();
  }
  NERF_ASSIGN_OR_RETURN(Job job, MakeJob(spec, /*needs_init=*/checkpoints.empty(), now));
  job.checkpoints = std::move(checkpoints);
  if (!job.checkpoints.empty()) job.best_preview_psnr = job.checkpoints.back().preview_psnr;
  job.create_sequence = state_.next_sequence();
  std::vector<Job> created = MakeParts(spec, &job);
  if (validate_only) return job;
  state_.TakeSequences(1 + created.size());
  created.insert(created.begin(), job);
  request.resource_id = job.key.id;
  NERF_RETURN_IF_ERROR(StoreNew(created, request, now));
  return job;
}

std::vector<Job> JobQueue::MakeParts(const JobSpec& spec, Job* whole) {
  std::vector<Job> parts;
  if (!spec.parts.empty())
    whole->merge_capability = fmt::format("{}{}", kMergePrefix, whole->training.config.method());
  for (const PartSpec& part : spec.parts) {
    Job job = *whole;
    job.parts.clear();
    job.key.id = NewPartId(*whole, parts.size(), state_);
    job.part_of = whole->key.id;
    job.retry_of = part.retry_of;
    job.request_id.clear();
    job.training.config = part.config;
    job.training.workers = WorkerCount();
    job.start_by = absl::InfiniteFuture();  // PartUpkeep says why
    job.lease = JobLease();
    job.last_event_sequence = 1;
    state_.requests().CountOnFromDeletedJob(job);
    if (part.resume.has_value()) {
      job.checkpoints = {*part.resume};
      job.best_preview_psnr = part.resume->preview_psnr;
    }
    job.create_sequence = whole->create_sequence + 1 + parts.size();
    whole->parts.push_back(job.key.id);
    parts.push_back(std::move(job));
  }
  return parts;
}

absl::Status JobQueue::StoreNew(std::span<const Job> jobs, const RequestRecord& request,
                                absl::Time now) {
  StoreWrite write;
  std::vector<ClaimKey> claimed;
  std::vector<JobEvent> events;
  for (const Job& job : jobs) {
    write.jobs.push_back({job, std::nullopt});
    events.push_back(MakeJobEvent(job, JobEventKind::kStateChanged, 0, now));
    write.events.emplace_back(job.key, events.back());
    claimed.push_back({ClaimKey::Kind::kJob, job.key});
    if (TraitsOf(job).makes_scene) {
      claimed.push_back({ClaimKey::Kind::kScene, {job.key.project, job.pose.scene}});
    }
  }
  if (!request.request_id.empty()) {
    write.new_requests.push_back(request);
    claimed.push_back({ClaimKey::Kind::kRequest, {request.project, request.request_id}});
  }
  Claim claim(state_, std::move(claimed));
  state_.BeginCreation(jobs);
  const absl::Status committed = state_.Commit(std::move(write));
  state_.EndCreation(jobs);
  NERF_RETURN_IF_ERROR(committed);

  state_.requests().Remember(request);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    state_.AddJob(job, events[i]);
    state_.observer.OnJobCreated(job);
    NoteJobOrigin(job.key.project, job.key.id, job.origin.request_id(), job.origin.traceparent());
    LogInfo("job created",
            {{"project", job.key.project}, {"job", job.key.id}, {"scene", job.training.scene}});
  }
  state_.WakeAllWorkers();
  return absl::OkStatus();
}

}  // namespace nerf
