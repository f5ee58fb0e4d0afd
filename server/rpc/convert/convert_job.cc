#include "server/rpc/convert/convert_job.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/rpc/proto_figures.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/training_config.h"
#include "common/status_macros.h"
#include "engine/methods/describe/method_descriptions.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_config.h"
#include "server/rpc/convert/convert_export.h"
#include "server/rpc/convert/convert_pose.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/kept_crop.h"
#include "server/rpc/convert/render_request.h"

namespace nerf {
namespace {

constexpr char kConfigField[] = "training_job.config";

v1::TrainingJob::State ToProtoTrainingState(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return v1::TrainingJob::QUEUED;
    case JobState::kPreparing:
      return v1::TrainingJob::PREPARING;
    case JobState::kRunning:
      return v1::TrainingJob::RUNNING;
    case JobState::kPausing:
      return v1::TrainingJob::PAUSING;
    case JobState::kPaused:
      return v1::TrainingJob::PAUSED;
    case JobState::kCancelling:
      return v1::TrainingJob::CANCELLING;
    case JobState::kSucceeded:
      return v1::TrainingJob::SUCCEEDED;
    case JobState::kFailed:
      return v1::TrainingJob::FAILED;
    case JobState::kCancelled:
      return v1::TrainingJob::CANCELLED;
  }
  return v1::TrainingJob::STATE_UNSPECIFIED;
}

v1::WatchTrainingJobResponse::Kind ToProtoKind(WatchEventKind kind) {
  switch (kind) {
    case WatchEventKind::kSnapshot:
      return v1::WatchTrainingJobResponse::SNAPSHOT;
    case WatchEventKind::kStateChanged:
      return v1::WatchTrainingJobResponse::STATE_CHANGED;
    case WatchEventKind::kProgress:
      return v1::WatchTrainingJobResponse::PROGRESS;
    case WatchEventKind::kCheckpointCommitted:
      return v1::WatchTrainingJobResponse::CHECKPOINT_COMMITTED;
    case WatchEventKind::kUpdated:
      return v1::WatchTrainingJobResponse::UPDATED;
  }
  return v1::WatchTrainingJobResponse::KIND_UNSPECIFIED;
}

// Serializes equal messages to equal bytes: maps are sorted by key.
std::string SerializeDeterministically(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

WorkerCount ParseWorkers(const v1::WorkerCount& proto, const TrainConfig& config,
                         RequestCheck& check) {
  WorkerCount workers;
  workers.min = std::max(1u, proto.min());
  workers.max = proto.max() == 0 ? workers.min : proto.max();
  check.Require(workers.min <= kMaxGangSize, "training_job.workers.min",
                fmt::format("must be at most {}", kMaxGangSize));
  check.Require(workers.max >= workers.min && workers.max <= kMaxGangSize,
                "training_job.workers.max",
                fmt::format("must be at least `min` and at most {}", kMaxGangSize));
  // An unknown method is refused with the config.
  const MethodDescription* const method = FindMethodDescription(config.method);
  if (workers.max > 1 && method != nullptr && method->Parts(config).empty()) {
    const absl::Status shared = CheckGang(config, static_cast<int>(workers.max));
    check.Require(shared.ok(), "training_job.workers", std::string(shared.message()));
  }
  return workers;
}

absl::Time Deadline(std::string_view field, bool is_set, const google::protobuf::Timestamp& time,
                    RequestCheck& check) {
  if (!is_set) return absl::InfiniteFuture();
  return TakeOr(FromProto(field, time), check);
}

// Sets the scene or the pose job that makes it.
void TakeScene(const v1::CreateTrainingJobRequest& request, JobSpec* spec, RequestCheck& check) {
  const v1::TrainingJob& job = request.training_job();
  const auto require_project = [&](const ResourceKey& key, std::string_view field) {
    check.Require(spec->project.empty() || key.project.empty() || key.project == spec->project,
                  field, "must be of the project in parent");
  };
  if (!job.pose_job().empty()) {
    const ResourceKey poses =
        TakeOr(ParsePoseJobName("training_job.pose_job", job.pose_job()), check);
    spec->training.pose_job = poses.id;
    require_project(poses, "training_job.pose_job");
    check.Require(job.scene().empty(), "training_job.scene",
                  "must be empty where training_job.pose_job makes the scene");
  } else if (!job.scene().empty() || !request.validate_only()) {
    const ResourceKey scene = TakeOr(ParseSceneName("training_job.scene", job.scene()), check);
    spec->training.scene = scene.id;
    require_project(scene, "training_job.scene");
  }
}

}  // namespace

google::rpc::Status ToProtoError(const JobError& error) {
  absl::Status status(error.code, error.message);
  if (!error.reason.empty()) status = WithReason(std::move(status), error.reason, error.metadata);
  return ToRpcStatus(status);
}

v1::Checkpoint ToProto(const ResourceKey& job, const CheckpointRecord& checkpoint) {
  v1::Checkpoint proto;
  proto.set_name(CheckpointName(job, checkpoint.step));
  proto.set_step(checkpoint.step);
  *proto.mutable_checkpoint_blob() = ToProto(checkpoint.checkpoint_blob);
  *proto.mutable_model_blob() = ToProto(checkpoint.model_blob);
  if (checkpoint.preview_psnr.has_value()) proto.set_psnr(*checkpoint.preview_psnr);
  *proto.mutable_create_time() = ToProto(checkpoint.create_time);
  proto.set_seconds(checkpoint.seconds);
  return proto;
}

v1::Progress ToProto(const JobProgress& progress) {
  v1::Progress proto;
  proto.set_step(progress.step);
  proto.set_eta_seconds(progress.eta_seconds);
  for (const auto& [name, value] : progress.figures) {
    if (!SetFigure(name, value, &proto)) (*proto.mutable_figures())[name] = value;
  }
  if (progress.preview_step.has_value()) proto.set_preview_step(*progress.preview_step);
  if (progress.preview_psnr.has_value()) proto.set_psnr_preview(*progress.preview_psnr);
  if (progress.preview_image.has_value()) {
    *proto.mutable_preview_image() = ToProto(*progress.preview_image);
  }
  return proto;
}

v1::TrainingJob ToProto(const Job& job) {
  v1::TrainingJob proto;
  proto.set_name(JobName(job.key));
  proto.set_display_name(job.display_name);
  if (!job.training.scene.empty())
    proto.set_scene(SceneName({job.key.project, job.training.scene}));
  if (!job.training.pose_job.empty())
    proto.set_pose_job(PoseJobName({job.key.project, job.training.pose_job}));
  // A request that cannot be parsed is left out.
  if (!proto.mutable_config()->ParseFromString(job.training.requested_config)) proto.clear_config();
  // Of an extension, the request is that of the first job.
  if (const JobConfig& config = job.training.config; !job.training.extend_capability.empty())
    SetBudget({config.budget_kind, config.budget_amount}, proto.mutable_config());
  *proto.mutable_effective_config() = ToProto(job.training.config, job.training.init);
  proto.set_init_reason(job.training.init_reason);
  proto.set_state(ToProtoTrainingState(job.state));
  proto.set_queue_reason(std::string(QueueReasonName(job.queue_reason)));
  proto.set_queue_message(job.queue_message);
  proto.set_attempt(job.attempt);
  if (HoldsLease(job.state)) proto.set_worker(WorkerName(std::string(job.lease.holder())));
  if (const WorkerCount& workers = job.training.workers; workers != WorkerCount()) {
    proto.mutable_workers()->set_min(workers.min);
    proto.mutable_workers()->set_max(workers.max);
  }
  const std::vector<std::string>& members = job.lease.members;
  if (HoldsLease(job.state) && job.lease.IsGang()) {
    for (uint32_t rank = 0; rank < members.size(); ++rank) {
      v1::Member* const member = proto.add_members();
      member->set_rank(rank);
      member->set_worker(WorkerName(members[rank]));
    }
  }
  if (job.progress != JobProgress()) *proto.mutable_progress() = ToProto(job.progress);
  if (job.state == JobState::kFailed) *proto.mutable_error() = ToProtoError(job.error);
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    *proto.add_checkpoints() = ToProto(job.key, checkpoint);
  }
  *proto.mutable_create_time() = ToProto(job.create_time);
  if (job.start_time != absl::InfinitePast()) *proto.mutable_start_time() = ToProto(job.start_time);
  if (job.end_time != absl::InfinitePast()) *proto.mutable_end_time() = ToProto(job.end_time);
  proto.set_last_event_sequence(static_cast<double>(job.last_event_sequence));
  for (const JobProblem& problem : job.error.problems) *proto.add_problems() = ToProto(problem);
  if (job.final_psnr.has_value()) proto.set_final_psnr(*job.final_psnr);
  proto.set_priority(job.priority);
  for (const auto& [key, value] : job.labels) (*proto.mutable_labels())[key] = value;
  ShowKeptCrop(job.crop, &proto);
  proto.set_etag(EtagOf(job));
  if (job.start_by != absl::InfiniteFuture()) {
    *proto.mutable_start_by_time() = ToProto(job.start_by);
  }
  if (job.end_by != absl::InfiniteFuture()) *proto.mutable_end_by_time() = ToProto(job.end_by);
  if (!job.retry_of.empty()) proto.set_retry_of(JobName({job.key.project, job.retry_of}));
  if (!job.extension_of.empty())
    proto.set_extension_of(JobName({job.key.project, job.extension_of}));
  for (const std::string& part : job.parts) proto.add_parts(JobName({job.key.project, part}));
  if (!job.part_of.empty()) proto.set_part_of(JobName({job.key.project, job.part_of}));
  return proto;
}

v1::WatchTrainingJobResponse ToProto(const WatchEvent& event) {
  v1::WatchTrainingJobResponse proto;
  proto.set_kind(ToProtoKind(event.kind));
  proto.set_resume_token(event.token);
  proto.set_sequence(static_cast<double>(event.sequence));
  proto.set_gap(event.gap);
  *proto.mutable_training_job() = ToProto(event.job);
  return proto;
}

v1::ListTrainingMetricsResponse ToProto(const JobCurve& curve) {
  v1::ListTrainingMetricsResponse proto;
  for (const CurvePoint& point : curve.points) {
    v1::TrainingMetrics* metrics = proto.add_points();
    metrics->set_step(point.step);
    metrics->set_seconds(point.seconds);
    metrics->set_loss(point.loss);
    metrics->set_psnr_train(point.psnr_train);
    metrics->set_rays_per_second(point.rays_per_second);
    metrics->set_samples_per_second(point.samples_per_second);
    if (point.psnr_preview.has_value()) metrics->set_psnr_preview(*point.psnr_preview);
  }
  for (const PreviewRecord& record : curve.previews) {
    v1::TrainingPreview* preview = proto.add_previews();
    preview->set_step(record.step);
    *preview->mutable_image() = ToProto(record.image);
    if (record.psnr.has_value()) preview->set_psnr(*record.psnr);
  }
  for (const TestViewScore& view : curve.test_views) {
    v1::TestViewScore* score = proto.add_test_views();
    score->set_file(view.file);
    score->set_psnr(view.psnr);
  }
  return proto;
}

v1::DesiredJob ToProto(const LeaseGrant& grant) {
  if (grant.lease.kind == JobKind::kRender) return RenderOrder(grant);
  if (grant.lease.kind == JobKind::kPose) return PoseOrder(grant);
  if (grant.lease.kind == JobKind::kExport) return ExportOrder(grant);
  v1::DesiredJob proto;
  proto.set_action(v1::DesiredJob::TRAIN);
  proto.set_training_job(JobName(grant.lease.job));
  proto.set_lease_epoch(grant.lease.epoch);
  *proto.mutable_lease_ttl() = ToProto(grant.ttl);
  AddManifest(grant.scene.files, proto.mutable_files());
  *proto.mutable_config() = ToProto(grant.job.training.config, grant.job.training.init);
  if (grant.resume.has_value()) *proto.mutable_resume() = ToProto(grant.lease.job, *grant.resume);
  proto.set_extend(!grant.job.training.extend_capability.empty());
  if (grant.job.training.init.has_value())
    *proto.mutable_init_blob() = ToProto(grant.job.training.init->blob);
  if (WantsMerge(grant.job)) {
    for (const BlobRef& model : grant.job.part_models) *proto.add_merge() = ToProto(model);
    proto.set_merge_seconds(grant.job.part_seconds);
  }
  proto.set_alone(grant.alone);
  if (grant.n_ranks > 1) {
    proto.set_part(grant.lease.part);
    proto.mutable_gang()->set_rank(grant.lease.part);
    proto.mutable_gang()->set_n_ranks(grant.n_ranks);
    proto.mutable_gang()->set_one_host(grant.one_host);
  }
  return proto;
}

absl::StatusOr<JobSpec> FromProto(const v1::CreateTrainingJobRequest& request) {
  RequestCheck check;
  JobSpec spec;
  const v1::TrainingJob& job = request.training_job();
  spec.project = TakeOr(ParseProjectName("parent", request.parent()), check);
  spec.id = request.training_job_id();
  check.RequireId("training_job_id", spec.id, /*may_be_empty=*/true);
  spec.request_id = request.request_id();
  check.RequireRequestId("request_id", spec.request_id);
  spec.display_name = job.display_name();
  check.RequireDisplayName("training_job.display_name", spec.display_name);
  spec.priority = job.priority();
  spec.labels = JobLabels(job.labels().begin(), job.labels().end());
  spec.start_by =
      Deadline("training_job.start_by_time", job.has_start_by_time(), job.start_by_time(), check);
  spec.end_by =
      Deadline("training_job.end_by_time", job.has_end_by_time(), job.end_by_time(), check);
  TakeScene(request, &spec, check);
  const TrainConfig config = ParseTrainConfig(kConfigField, job.config(), check);
  spec.training.config = ToJobConfig(config);
  spec.training.workers = ParseWorkers(job.workers(), config, check);
  if (GangDevices(config) == kOnCuda) spec.training.gang_device = GangDevice::kCuda;
  if (const MethodDescription* method = FindMethodDescription(config.method);
      method != nullptr && spec.training.workers.max > 1) {
    for (const TrainConfig& part : method->Parts(config))
      spec.parts.emplace_back().config = ToJobConfig(part);
  }
  v1::TrainingConfig requested = job.config();
  requested.DiscardUnknownFields();  // they would be stored and sent in every response
  spec.training.requested_config = SerializeDeterministically(requested);
  spec.training.init = ParseInit(kConfigField, job.config(), check);
  if (spec.training.init.has_value() && !spec.training.init->source.project.empty()) {
    check.Require(spec.project.empty() || spec.training.init->source.project == spec.project,
                  "training_job.config.init", "must be of the project in parent");
  }
  NERF_RETURN_IF_ERROR(check.Result());
  return spec;
}

absl::StatusOr<JobSpec> FromProto(const v1::RetryTrainingJobRequest& request) {
  RequestCheck check;
  JobSpec spec;
  const ResourceKey job = TakeOr(ParseJobName("name", request.name()), check);
  spec.project = job.project;
  spec.retry_of = job.id;
  spec.id = request.training_job_id();
  check.RequireId("training_job_id", spec.id, /*may_be_empty=*/true);
  spec.request_id = request.request_id();
  check.RequireRequestId("request_id", spec.request_id);
  NERF_RETURN_IF_ERROR(check.Result());
  return spec;
}

absl::StatusOr<JobSpec> FromProto(const v1::ExtendTrainingJobRequest& request) {
  RequestCheck check;
  JobSpec spec;
  const ResourceKey job = TakeOr(ParseJobName("name", request.name()), check);
  spec.project = job.project;
  spec.id = request.training_job_id();
  check.RequireId("training_job_id", spec.id, /*may_be_empty=*/true);
  spec.request_id = request.request_id();
  check.RequireRequestId("request_id", spec.request_id);
  TrainConfig config;
  Budget& total = config.budget;
  switch (request.total_case()) {
    case v1::ExtendTrainingJobRequest::kSteps:
      total = {BudgetKind::kSteps, static_cast<double>(request.steps())};
      break;
    case v1::ExtendTrainingJobRequest::kSamples:
      total = {BudgetKind::kSamples, request.samples()};
      break;
    case v1::ExtendTrainingJobRequest::kSeconds:
      total = {BudgetKind::kSeconds, request.seconds()};
      break;
    case v1::ExtendTrainingJobRequest::TOTAL_NOT_SET:
      check.Require(false, "total", "must be steps, samples or seconds");
      break;
  }
  spec.extension = {job.id, std::string(BudgetKindName(total.kind)), total.amount};
  const absl::Status allowed = CheckBudgetAndSplit(config);
  check.Require(allowed.ok(), spec.extension.budget_kind, std::string(allowed.message()));
  NERF_RETURN_IF_ERROR(check.Result());
  return spec;
}

absl::StatusOr<JobUpdate> FromProto(const v1::UpdateTrainingJobRequest& request) {
  constexpr std::string_view kLabels = "labels.";
  const v1::TrainingJob& job = request.training_job();
  RequestCheck check;
  check.Require(request.update_mask().paths_size() > 0, "update_mask", "must name a field");
  JobUpdate update;
  update.etag = job.etag();
  for (const std::string& path : request.update_mask().paths()) {
    const std::string_view label =
        path.starts_with(kLabels) ? std::string_view(path).substr(kLabels.size()) : "";
    if (path == "display_name") {
      update.display_name = job.display_name();
    } else if (path == "priority") {
      update.priority = job.priority();
    } else if (path == "crop") {
      if (job.has_crop()) CheckCropBox("training_job.crop", job.crop(), check);
      update.crop = KeptCrop(job.has_crop(), job.crop());
    } else if (path == "labels") {
      update.labels = JobLabels(job.labels().begin(), job.labels().end());
    } else if (path == "start_by_time") {
      update.start_by = Deadline("training_job.start_by_time", job.has_start_by_time(),
                                 job.start_by_time(), check);
    } else if (path == "end_by_time") {
      update.end_by =
          Deadline("training_job.end_by_time", job.has_end_by_time(), job.end_by_time(), check);
    } else if (IsLabelKey(label)) {
      const auto found = job.labels().find(std::string(label));
      update.some_labels[std::string(label)] =
          found == job.labels().end() ? std::nullopt : std::optional(found->second);
    } else {
      check.Require(false, "update_mask",
                    "must be of display_name, priority, start_by_time, end_by_time, crop, labels "
                    "and labels.KEY");
    }
  }
  NERF_RETURN_IF_ERROR(check.Result());
  return update;
}

TrainConfig EffectiveConfig(const v1::CreateTrainingJobRequest& request) {
  RequestCheck ignored;
  return ParseTrainConfig(kConfigField, request.training_job().config(), ignored);
}

}  // namespace nerf
