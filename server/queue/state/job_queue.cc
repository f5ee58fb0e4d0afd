#include "server/queue/state/job_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/error_reason.h"
#include "common/log_options.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/jobs/any_training.h"
#include "server/queue/jobs/render_work.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/job_names.h"
#include "server/queue/state/part_jobs.h"
#include "server/queue/state/pose_jobs.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

// The job that a retry or an extension is of; empty without one.
const std::string& EarlierJob(const JobSpec& spec) {
  return spec.retry_of.empty() ? spec.extension.of : spec.retry_of;
}

std::string FingerprintOf(const JobSpec& spec) {
  if (spec.kind == JobKind::kPose) return FingerprintOfPoses(spec);
  Fingerprint fingerprint;
  if (spec.kind == JobKind::kRender) {
    return fingerprint.Add("render").Add(spec.id).Add(spec.render.request).Hex();
  }
  if (spec.kind == JobKind::kExport) {
    fingerprint.Add("export").Add(spec.id).Add(spec.exporting.request);
    for (const auto& [key, value] : spec.labels) fingerprint.Add("label").Add(key).Add(value);
    return fingerprint.Hex();
  }
  // The config as requested: defaults may change with the server's version.
  fingerprint.Add("job").Add(spec.id).Add(spec.display_name).Add(spec.training.scene);
  // Absent from the requests of older clients, whose fingerprints are stored.
  if (!spec.training.pose_job.empty()) {
    fingerprint.Add("pose_job").Add(spec.training.pose_job);
  }
  if (spec.priority != 0) fingerprint.Add("priority").Add(std::to_string(spec.priority));
  for (const auto& [key, value] : spec.labels) fingerprint.Add("label").Add(key).Add(value);
  if (!spec.retry_of.empty()) fingerprint.Add("retry_of").Add(spec.retry_of);
  if (const Extension& extension = spec.extension; !extension.of.empty()) {
    fingerprint.Add("extension_of").Add(extension.of).Add(extension.budget_kind);
    fingerprint.Add(fmt::format("{}", extension.budget_amount));
  }
  if (const WorkerCount& workers = spec.training.workers; workers != WorkerCount()) {
    fingerprint.Add("workers").Add(uint64_t{workers.min}).Add(uint64_t{workers.max});
  }
  for (const auto& [name, deadline] :
       {std::pair("start_by", spec.start_by), std::pair("end_by", spec.end_by)}) {
    if (deadline != absl::InfiniteFuture()) {
      fingerprint.Add(name).Add(absl::FormatTime(deadline, absl::UTCTimeZone()));
    }
  }
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

absl::Status WrongState(const Job& job) {
  return StateConflict(fmt::format("{} is {}", JobName(job.key, job.kind), JobStateName(job.state)),
                       {{"state", std::string(JobStateName(job.state))}});
}

void RequireFuture(std::string_view field, absl::Time deadline, absl::Time now,
                   RequestCheck& check) {
  check.Require(deadline > now, field,
                fmt::format("must be in the future; the server's clock says {}",
                            absl::FormatTime(now, absl::UTCTimeZone())));
}

absl::Status CheckRenderSpec(const JobSpec& spec) {
  RequestCheck check;
  CheckJobNames(spec, "render_job", check);
  check.Require(spec.render.source.project == spec.project, "render_job.source",
                "must be of the same project");
  check.Require(spec.render.n_frames >= 1 && spec.render.n_frames <= kMaxFrames, "render_job.path",
                fmt::format("must have 1 to {} frames", kMaxFrames));
  return check.Result();
}

absl::Status CheckExportSpec(const JobSpec& spec) {
  RequestCheck check;
  CheckJobNames(spec, "export_job", check);
  check.Require(spec.exporting.source.project == spec.project, "export_job.source",
                "must be of the same project");
  return check.Result();
}

absl::Status CheckSpec(const JobSpec& spec, bool validate_only) {
  if (spec.kind == JobKind::kExport) return CheckExportSpec(spec);
  if (spec.kind == JobKind::kRender) return CheckRenderSpec(spec);
  if (spec.kind == JobKind::kPose) return CheckPoseSpec(spec);
  RequestCheck check;
  check.RequireId("parent", spec.project);
  check.RequireId("training_job_id", spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName("training_job.display_name", spec.display_name);
  check.RequireId("training_job.scene", spec.training.scene,
                  /*may_be_empty=*/validate_only || !EarlierJob(spec).empty() ||
                      !spec.training.pose_job.empty());
  check.RequireId("training_job.pose_job", spec.training.pose_job, /*may_be_empty=*/true);
  check.Add(CheckPriority("training_job.priority", spec.priority));
  check.Add(CheckLabels("training_job.labels", spec.labels));
  const std::optional<InitReference>& init = spec.training.init;
  if (init.has_value() && init->kind != InitReference::Kind::kAuto) {
    check.Require(init->source.project == spec.project, "training_job.config.init",
                  "must be of the same project");
  }
  return check.Result();
}

std::string_view IdPrefixOf(JobKind kind) {
  switch (kind) {
    case JobKind::kTraining:
      return "j";
    case JobKind::kRender:
      return "r";
    case JobKind::kPose:
      return "p";
    case JobKind::kExport:
      return "e";
  }
  return "";
}

// Whether the model was made of a checkpoint of this job, not of an earlier one with the same id.
bool IsOfJob(const ModelRecord& model, const Job& job) {
  return std::any_of(job.checkpoints.begin(), job.checkpoints.end(),
                     [&](const CheckpointRecord& checkpoint) {
                       return checkpoint.step == model.step && checkpoint.model_blob == model.blob;
                     });
}

}  // namespace

void JobQueue::ChooseInit(const JobSpec& spec, TrainingSpec& training) {
  StartQuestion question;
  const auto scene_of = [&](const std::string& id) {
    state_.mu.AssertHeld();
    const auto found = state_.scenes.find({spec.project, id});
    return found == state_.scenes.end() ? nullptr : &found->second;
  };
  question.scene = scene_of(training.scene);
  for (auto it = state_.model_order.rbegin();
       it != state_.model_order.rend() && question.candidates.size() < kMaxStartCandidates; ++it) {
    const ResourceKey& key = it->second;
    // One that is being deleted may be gone when this job is stored.
    if (key.project != spec.project || state_.IsClaimed({ClaimKey::Kind::kModel, key})) continue;
    StartCandidate candidate{.model = &state_.models.at(key)};
    const auto job = state_.jobs.find({spec.project, candidate.model->job});
    if (job != state_.jobs.end() && IsOfJob(*candidate.model, job->second.job)) {
      candidate.job = &job->second.job;
      candidate.scene = scene_of(candidate.job->training.scene);
    }
    question.candidates.push_back(candidate);
  }
  const StartAnswer answer = spec.choose_start(question);
  training.init_reason = answer.reason;
  if (answer.model == nullptr) {
    training.init.reset();
    return;
  }
  training.init->kind = InitReference::Kind::kModel;
  training.init->source = answer.model->key;
  training.init->blob = answer.model->blob;
}

absl::Status JobQueue::ResolveInit(const JobSpec& spec, TrainingSpec& training) {
  InitReference& init = *training.init;
  if (init.kind == InitReference::Kind::kAuto) {
    if (spec.choose_start == nullptr) return absl::InternalError("nobody chooses the start");
    ChooseInit(spec, training);
    return absl::OkStatus();
  }
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

absl::StatusOr<std::string> JobQueue::ResolveSource(ModelSource& source) {
  if (!source.from_checkpoint) {
    const auto model = state_.models.find(source.source);
    if (model == state_.models.end()) return ResourceNotFound(ModelName(source.source));
    source.model_blob = model->second.blob;
    return model->second.method;
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
  source.step = checkpoint->step;
  source.model_blob = checkpoint->model_blob;
  return job.training.config.method;
}

absl::StatusOr<Job> JobQueue::MakeJob(const JobSpec& spec, bool needs_init, absl::Time now) {
  Job job;
  job.key = {spec.project, spec.id};
  job.display_name = spec.display_name;
  job.kind = spec.kind;
  job.priority = spec.priority;
  job.labels = spec.labels;
  job.retry_of = spec.retry_of;
  job.extension_of = spec.extension.of;
  job.start_by = spec.start_by;
  job.end_by = spec.end_by;
  job.training = spec.training;
  job.render = spec.render;
  job.pose = spec.pose;
  job.exporting = spec.exporting;
  job.request_id = spec.request_id;
  job.origin = spec.origin;
  job.create_time = now;
  job.last_event_sequence = 1;
  // Not in CheckSpec: a repeated request finds its job even after the deadline.
  RequestCheck check;
  RequireFuture("training_job.start_by_time", spec.start_by, now, check);
  RequireFuture("training_job.end_by_time", spec.end_by, now, check);
  NERF_RETURN_IF_ERROR(check.Result());
  const ResourceKey scene = {spec.project, spec.training.scene};
  if (!spec.training.pose_job.empty()) {
    NERF_RETURN_IF_ERROR(AwaitPoses(state_, job));
  } else if (!scene.id.empty() && !state_.scenes.contains(scene)) {
    return ResourceNotFound(SceneName(scene));
  }
  if (job.kind == JobKind::kRender) {
    NERF_ASSIGN_OR_RETURN(const std::string method, ResolveSource(job.render));
    job.render.capability = FrameCapability(method);
    job.render_work = NewRenderWork(job.render);
  }
  if (job.kind == JobKind::kPose) NERF_RETURN_IF_ERROR(ReserveScene(state_, job));
  if (job.kind == JobKind::kExport) {
    NERF_ASSIGN_OR_RETURN(const std::string method, ResolveSource(job.exporting));
    job.exporting.capability = fmt::format("{}{}", kExportPrefix, method);
  }
  if (job.training.init.has_value() && needs_init) {
    NERF_RETURN_IF_ERROR(ResolveInit(spec, job.training));
  }
  const auto is_taken = [&] {
    state_.mu.AssertHeld();
    return state_.jobs.contains(job.key) || state_.jobs_in_creation.contains(job.key);
  };
  if (!spec.id.empty() && is_taken()) return ResourceExists(JobName(job.key, job.kind));
  NERF_RETURN_IF_ERROR(CheckNewJob(state_, spec.project, 1 + spec.parts.size()));
  while (job.key.id.empty() || (spec.id.empty() && is_taken())) {
    job.key.id = NewShortId(IdPrefixOf(job.kind), state_.random);
  }
  state_.CountOnFromDeletedJob(job);
  return job;
}

absl::Status JobQueue::TakeOver(JobSpec& spec, std::vector<CheckpointRecord>* checkpoints) {
  NERF_ASSIGN_OR_RETURN(const JobEntry* entry, state_.FindJob({spec.project, EarlierJob(spec)}));
  const Job& job = entry->job;
  const bool is_retry = !spec.retry_of.empty();
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
  NERF_RETURN_IF_ERROR(CheckSpec(requested, validate_only));
  JobSpec spec = requested;
  std::vector<CheckpointRecord> checkpoints;
  // Without the lock, because it reads the file system. Present blobs are not collected meanwhile
  // (BlobIndex).
  std::vector<BlobRef> inputs;
  for (const SceneFileRecord& file : spec.pose.files) inputs.push_back(file.blob);
  const absl::Status present = state_.RequireBlobs(inputs);
  QueueLock lock(state_);
  // Without a list every project exists: who may use it was decided before.
  const std::set<std::string>& projects = state_.options.projects;
  if (!projects.empty() && !projects.contains(spec.project)) {
    return ResourceNotFound("projects/" + spec.project);
  }
  if (!EarlierJob(spec).empty()) {
    // For its scene, which never changes.
    const auto found = state_.jobs.find({spec.project, EarlierJob(spec)});
    if (found != state_.jobs.end()) spec.training.scene = found->second.job.training.scene;
  }
  // Wait for changes that are being stored under these names.
  const ClaimKey request_key{ClaimKey::Kind::kRequest, {spec.project, spec.request_id}};
  std::vector<ClaimKey> names = {{ClaimKey::Kind::kScene, {spec.project, spec.training.scene}},
                                 request_key,
                                 {ClaimKey::Kind::kJob, {spec.project, spec.id}},
                                 {ClaimKey::Kind::kJob, {spec.project, EarlierJob(spec)}},
                                 {ClaimKey::Kind::kJob, {spec.project, spec.training.pose_job}}};
  if (const auto& init = spec.training.init;
      init.has_value() && init->kind != InitReference::Kind::kAuto) {
    names.push_back(
        {init->kind == InitReference::Kind::kModel ? ClaimKey::Kind::kModel : ClaimKey::Kind::kJob,
         init->source});
  }
  if (spec.kind == JobKind::kRender || spec.kind == JobKind::kExport) {
    const ModelSource& model = spec.kind == JobKind::kRender
                                   ? static_cast<const ModelSource&>(spec.render)
                                   : spec.exporting;
    names.push_back(
        {model.from_checkpoint ? ClaimKey::Kind::kJob : ClaimKey::Kind::kModel, model.source});
  }
  if (!spec.pose.scene.empty()) {
    names.push_back({ClaimKey::Kind::kScene, {spec.project, spec.pose.scene}});
  }
  state_.AwaitUnclaimed(names);
  const absl::Time now = state_.clock.WallNow();
  RequestRecord request{RequestRecord::Kind::kJob, spec.project, spec.request_id, "",
                        FingerprintOf(requested),  state_.Age()};
  NERF_ASSIGN_OR_RETURN(const auto earlier, state_.FindRequest(request));
  if (earlier.has_value()) {
    NERF_ASSIGN_OR_RETURN(const JobEntry* entry,
                          state_.FindJob({spec.project, *earlier}, spec.kind));
    return entry->job;
  }
  NERF_RETURN_IF_ERROR(present);
  if (!EarlierJob(spec).empty()) NERF_RETURN_IF_ERROR(TakeOver(spec, &checkpoints));
  if (!checkpoints.empty() && !spec.parts.empty()) {
    // It was merged, and one worker goes on from there.
    spec.parts.clear();
    spec.training.workers = WorkerCount();
  }
  NERF_ASSIGN_OR_RETURN(Job job, MakeJob(spec, /*needs_init=*/checkpoints.empty(), now));
  job.checkpoints = std::move(checkpoints);
  if (!job.checkpoints.empty()) job.best_preview_psnr = job.checkpoints.back().preview_psnr;
  job.create_sequence = state_.next_sequence;
  std::vector<Job> created = MakeParts(spec, &job);
  if (validate_only) return job;
  state_.next_sequence += 1 + created.size();
  created.insert(created.begin(), job);
  request.resource_id = job.key.id;
  NERF_RETURN_IF_ERROR(StoreNew(created, request, now));
  return job;
}

std::vector<Job> JobQueue::MakeParts(const JobSpec& spec, Job* whole) {
  std::vector<Job> parts;
  if (!spec.parts.empty())
    whole->merge_capability = fmt::format("{}{}", kMergePrefix, whole->training.config.method);
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
    state_.CountOnFromDeletedJob(job);
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
    if (job.kind == JobKind::kPose) {
      claimed.push_back({ClaimKey::Kind::kScene, {job.key.project, job.pose.scene}});
    }
  }
  if (!request.request_id.empty()) {
    write.new_requests.push_back(request);
    claimed.push_back({ClaimKey::Kind::kRequest, {request.project, request.request_id}});
  }
  Claim claim(state_, std::move(claimed));
  for (const Job& job : jobs) {
    state_.jobs_in_creation.emplace(job.key, job);
    for (const BlobRef& blob : BlobsOf(job)) state_.NoteReference(blob);
  }
  const absl::Status committed = state_.Commit(std::move(write));
  for (const Job& job : jobs) state_.jobs_in_creation.erase(job.key);
  NERF_RETURN_IF_ERROR(committed);

  state_.RememberRequest(request);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    JobEntry& entry = state_.jobs[job.key];
    entry.job = job;
    entry.progress_stored_at = state_.clock.Now();
    entry.log.Append(events[i], state_.MachineNow());
    state_.job_order.emplace(job.create_sequence, job.key);
    if (!job.parts.empty()) state_.split_jobs.insert(job.key);
    state_.Reindex(entry, std::nullopt);
    if (job.kind == JobKind::kTraining) state_.rows.Changed(job.key, state_.wake);
    state_.observer.OnJobCreated(job);
    NoteJobOrigin(job.key.project, job.key.id, job.origin.request_id, job.origin.traceparent);
    LogInfo("job created",
            {{"project", job.key.project}, {"job", job.key.id}, {"scene", job.training.scene}});
  }
  for (const auto& [worker, signal] : state_.work_signals) state_.wake.push_back(signal);
  return absl::OkStatus();
}

absl::StatusOr<Job> JobQueue::Get(const ResourceKey& key, JobKind kind) {
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(const JobEntry* entry, state_.FindJob(key, kind));
  return entry->job;
}

absl::StatusOr<Page<Job>> JobQueue::ListOfKind(const PageRequest& request, JobKind kind) {
  MutexLock lock(state_.mu);
  return ListPage<Job>(
      *state_.token_sealer, absl::AsciiStrToLower(std::string(JobKindName(kind))) + "_jobs",
      request, state_.job_order, state_.jobs, [](const auto& entry) { return entry.job; },
      [&](const auto& entry) { return entry.job.kind == kind; });
}

absl::StatusOr<Page<Job>> JobQueue::List(const PageRequest& request, const JobFilter& filter) {
  // A page token continues the list of one filter.
  const std::string kind = filter.text().empty() ? "jobs" : "jobs:" + filter.text();
  MutexLock lock(state_.mu);
  return ListPage<Job>(
      *state_.token_sealer, kind, request, state_.job_order, state_.jobs,
      [](const auto& entry) { return entry.job; },
      [&](const auto& entry) {
        return entry.job.kind == JobKind::kTraining && filter.Matches(entry.job);
      });
}

size_t JobQueue::PartsDone(const Job& job) {
  MutexLock lock(state_.mu);
  const std::vector<JobEntry*> parts = PartsOfJob(state_, job);
  return static_cast<size_t>(std::count_if(parts.begin(), parts.end(), [](const JobEntry* part) {
    return part->job.state == JobState::kSucceeded;
  }));
}

bool JobQueue::IsQueued(const Job& job) {
  MutexLock lock(state_.mu);
  if (state_.queued_jobs.contains(job.create_sequence)) return true;
  const auto found = state_.jobs.find(job.key);
  if (found == state_.jobs.end()) return false;
  const Job& now = found->second.job;
  return now.create_sequence == job.create_sequence && now.state == JobState::kQueued &&
         WaitsForJobs(now);
}

QueuePlace JobQueue::PlaceOf(const Job& job) {
  MutexLock lock(state_.mu);
  return nerf::PlaceOf(state_, job);
}

absl::StatusOr<JobEntry*> JobQueue::FindChangeable(const ResourceKey& key, JobKind kind) {
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindUnclaimedJob(key, kind));
  NERF_RETURN_IF_ERROR(CheckNoPart(state_, entry->job));
  return entry;
}

absl::StatusOr<Job> JobQueue::ChangeState(const ResourceKey& key, const TargetState& target) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key, JobKind::kTraining));
  const JobState from = entry->job.state;
  const std::optional<JobState> to = target(from);
  if (!to.has_value()) return WrongState(entry->job);
  if (*to == from) return entry->job;
  JobChange change(*entry, state_.clock.WallNow());
  NERF_RETURN_IF_ERROR(change.Move(*to));
  // Its worker was told to stop and does; the job is then queued.
  if (from == JobState::kPausing && *to == JobState::kPreparing &&
      entry->job.stop == StopCause::kNone) {
    state_.RequestStop(*entry, StopCause::kResumed);
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::CancelRender(const ResourceKey& key) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindUnclaimedJob(key, JobKind::kRender));
  const JobState from = entry->job.state;
  if (from == JobState::kCancelling || from == JobState::kCancelled) return entry->job;
  if (IsFinal(from)) {
    return StateConflict(fmt::format("{} is {}", RenderJobName(key), JobStateName(from)),
                         {{"state", std::string(JobStateName(from))}});
  }
  JobChange change(*entry, state_.clock.WallNow());
  if (HoldsLease(from)) NERF_RETURN_IF_ERROR(change.Move(JobState::kCancelling));
  if (!IsAnyPartHeld(change.job)) NERF_RETURN_IF_ERROR(change.Move(JobState::kCancelled));
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::Cancel(const ResourceKey& key, bool keep_checkpoint, JobKind kind) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key, kind));
  const JobState from = entry->job.state;
  if (from == JobState::kCancelled) return entry->job;
  if (IsFinal(from)) return WrongState(entry->job);
  const bool cancelling = from == JobState::kCancelling;
  if (cancelling && entry->job.keep_on_cancel == keep_checkpoint) return entry->job;
  JobChange change(*entry, state_.clock.WallNow());
  change.job.keep_on_cancel = keep_checkpoint && HoldsLease(from);
  if (cancelling) {
    change.Record(JobEventKind::kStateChanged);  // wakes the worker
  } else {
    NERF_RETURN_IF_ERROR(
        change.Move(HoldsLease(from) ? JobState::kCancelling : JobState::kCancelled));
  }
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::Update(const ResourceKey& key, const JobUpdate& update) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key, JobKind::kTraining));
  const std::string etag = EtagOf(entry->job);
  if (!update.etag.empty() && update.etag != etag) {
    return WithReason(absl::AbortedError(fmt::format("{} has changed: its etag is {}, not {}",
                                                     JobName(key), etag, update.etag)),
                      reason::kEtagMismatch, {{"etag", etag}});
  }
  JobChange change(*entry, state_.clock.WallNow());
  Job& job = change.job;
  if (update.display_name.has_value()) job.display_name = *update.display_name;
  if (update.priority.has_value()) job.priority = *update.priority;
  if (update.labels.has_value()) job.labels = *update.labels;
  job.start_by = update.start_by.value_or(job.start_by);
  job.end_by = update.end_by.value_or(job.end_by);
  for (const auto& [label, value] : update.some_labels) {
    if (value.has_value()) {
      job.labels[label] = *value;
    } else {
      job.labels.erase(label);
    }
  }
  RequestCheck check;
  check.RequireDisplayName("training_job.display_name", job.display_name);
  check.Add(CheckPriority("training_job.priority", job.priority));
  check.Add(CheckLabels("training_job.labels", job.labels));
  const absl::Time now = state_.clock.WallNow();
  if (update.start_by.has_value()) {
    RequireFuture("training_job.start_by_time", job.start_by, now, check);
  }
  if (update.end_by.has_value()) {
    RequireFuture("training_job.end_by_time", job.end_by, now, check);
  }
  NERF_RETURN_IF_ERROR(check.Result());
  if (EtagOf(job) == etag) return entry->job;
  change.Record(JobEventKind::kUpdated);
  NERF_RETURN_IF_ERROR(state_.Apply(*entry, std::move(change)));
  return entry->job;
}

absl::StatusOr<Job> JobQueue::Pause(const ResourceKey& key) {
  return ChangeState(key, [](JobState from) -> std::optional<JobState> {
    if (from == JobState::kPausing || from == JobState::kPaused) return from;
    if (from == JobState::kQueued) return JobState::kPaused;
    const bool is_at_work = from == JobState::kPreparing || from == JobState::kRunning;
    return is_at_work ? std::optional(JobState::kPausing) : std::nullopt;
  });
}

absl::StatusOr<Job> JobQueue::Resume(const ResourceKey& key) {
  return ChangeState(key, [](JobState from) -> std::optional<JobState> {
    if (from == JobState::kPaused) return JobState::kQueued;
    if (from == JobState::kPausing) return JobState::kPreparing;
    const bool goes_on =
        from == JobState::kQueued || from == JobState::kPreparing || from == JobState::kRunning;
    return goes_on ? std::optional(from) : std::nullopt;
  });
}

absl::Status JobQueue::Delete(const ResourceKey& key, JobKind kind) {
  QueueLock lock(state_);
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, FindChangeable(key, kind));
  if (kind == JobKind::kPose && IsFinal(entry->job.state)) {
    NERF_RETURN_IF_ERROR(ReleaseTrainings(state_, key));
    NERF_ASSIGN_OR_RETURN(entry, FindChangeable(key, kind));  // the lock was free
  }
  std::vector<ClaimKey> claims = {{ClaimKey::Kind::kJob, key}};
  for (const std::string& part : entry->job.parts)
    claims.push_back({ClaimKey::Kind::kJob, {key.project, part}});
  state_.AwaitUnclaimed(claims);
  NERF_ASSIGN_OR_RETURN(entry, state_.FindJob(key, kind));  // the lock was free
  std::vector<JobEntry*> deleted = PartsOfJob(state_, entry->job);
  deleted.insert(deleted.begin(), entry);
  for (const JobEntry* each : deleted) {
    const Job& job = each->job;
    if (IsFinal(job.state)) continue;
    return StateConflict(each == entry ? fmt::format("{} is {}; cancel it first",
                                                     JobName(key, kind), JobStateName(job.state))
                                       : fmt::format("{}, a part of it, is still {}",
                                                     JobName(job.key), JobStateName(job.state)),
                         {{"state", std::string(JobStateName(job.state))}});
  }
  std::vector<ResourceKey> keys;
  for (const JobEntry* each : deleted) keys.push_back(each->job.key);
  NERF_RETURN_IF_ERROR(DeleteJobs(keys));
  LogInfo("job deleted", {{"project", key.project}, {"job", key.id}});
  return absl::OkStatus();
}

absl::Status JobQueue::DeleteJobs(const std::vector<ResourceKey>& keys) {
  StoreWrite write;
  std::vector<ClaimKey> claimed;
  for (const ResourceKey& key : keys) {
    const Job& job = state_.jobs.at(key).job;
    write.deleted_jobs.push_back(key);
    write.trimmed_events.emplace_back(key, job.last_event_sequence);
    write.new_requests.push_back(QueueState::RecordOfDeletedJob(job, state_.Age()));
    claimed.push_back({ClaimKey::Kind::kJob, key});
  }
  const std::vector<RequestRecord> remembered = write.new_requests;
  Claim claim(state_, std::move(claimed));
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  for (const RequestRecord& record : remembered) state_.RememberRequest(record);
  for (const ResourceKey& key : keys) Forget(state_.jobs.at(key));
  return absl::OkStatus();
}

std::vector<ResourceKey> JobQueue::Deletable(const Job& job) {
  if (!CheckNoPart(state_, job).ok() || TrainingAwaiting(state_, job.key).has_value()) return {};
  std::vector<JobEntry*> all = PartsOfJob(state_, job);
  all.push_back(&state_.jobs.at(job.key));
  std::vector<ResourceKey> keys;
  for (const JobEntry* each : all) {
    const ResourceKey& key = each->job.key;
    if (!IsFinal(each->job.state) || state_.IsClaimed({ClaimKey::Kind::kJob, key})) return {};
    keys.push_back(key);
  }
  return keys;
}

// Leaves `entry` destroyed, or moved away with what its watchers still read.
void JobQueue::Forget(JobEntry& entry) {
  const Job& job = entry.job;
  const ResourceKey key = job.key;
  const JobKind kind = job.kind;
  for (const BlobRef& blob : BlobsOf(job)) state_.blobs.Release(blob);
  state_.LeaveState(job, job.state);
  const uint64_t create_sequence = job.create_sequence;
  state_.job_order.erase(create_sequence);
  // Keep its events for watchers that have not read all of them.
  if (entry.log.n_watchers() > 0) state_.deleted_jobs.emplace(create_sequence, std::move(entry));
  if (kind == JobKind::kTraining) state_.rows.Deleted(key, state_.wake);
  state_.jobs.erase(key);
}

absl::StatusOr<size_t> JobQueue::DeleteEnded(std::span<const ResourceKey> keys) {
  QueueLock lock(state_);
  std::set<ResourceKey> deleted;
  for (const ResourceKey& key : keys) {
    const auto found = state_.jobs.find(key);
    if (found == state_.jobs.end()) continue;
    for (ResourceKey& each : Deletable(found->second.job)) deleted.insert(std::move(each));
  }
  if (deleted.empty()) return 0;
  NERF_RETURN_IF_ERROR(DeleteJobs({deleted.begin(), deleted.end()}));
  return deleted.size();
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

absl::StatusOr<JobCurve> JobQueue::GetCurve(const ResourceKey& job) {
  JobCurve curve;
  {
    MutexLock lock(state_.mu);
    NERF_ASSIGN_OR_RETURN(const JobEntry* found, state_.FindJob(job));
    curve.previews = found->job.previews;
    curve.points = found->curve.points();
    if (!IsFinal(found->job.state)) return curve;
  }
  NERF_ASSIGN_OR_RETURN(const TrainingCurve stored, state_.store.LoadCurve(job));
  curve.points = stored.points();
  curve.test_views = stored.test_views();
  return curve;
}

absl::StatusOr<std::unique_ptr<JobListWatcher>> JobQueue::WatchList(JobListRequest request,
                                                                    std::function<void()> on_new) {
  return JobListWatcher::Open(&state_, std::move(request), std::move(on_new));
}

absl::StatusOr<std::unique_ptr<Watcher>> JobQueue::Watch(const ResourceKey& key,
                                                         std::string_view token,
                                                         std::function<void()> on_new,
                                                         JobKind kind) {
  std::optional<WatchPosition> position;
  // Checked before the job is looked up: a job of another store must not be reported as not found.
  if (!token.empty()) {
    NERF_ASSIGN_OR_RETURN(position,
                          ParseWatchToken(*state_.token_sealer, kind, state_.store_epoch, token));
    if (position->job != key) {
      return InvalidFieldsError({{"resume_token", "belongs to another job"}});
    }
  }
  MutexLock lock(state_.mu);
  NERF_ASSIGN_OR_RETURN(JobEntry * found, state_.FindJob(key, kind));
  JobEntry& entry = *found;
  const uint64_t last = entry.job.last_event_sequence;
  // The token is ahead of the store, so an older backup was restored.
  if (position.has_value() && position->sequence > last) return ForeignWatchToken();
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
  stats.pose_jobs = state_.pose_job_counts;
  if (!state_.queued_since.empty()) {
    stats.oldest_queued_age = state_.clock.Now() - *state_.queued_since.begin();
  }
  stats.n_watchers = state_.n_watchers;
  stats.n_queued = state_.queued_jobs.size();
  stats.n_leases = state_.lease_deadlines.size();
  return stats;
}

}  // namespace nerf
