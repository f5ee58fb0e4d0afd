#include "server/rpc/convert/convert_job.h"

#include <array>
#include <string>
#include <utility>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/config/train_config.h"
#include "engine/base/messages/crop_box.h"
#include "server/queue/jobs/job_spec.h"
#include "server/queue/records/job_message.h"
#include "server/queue/records/kind_record.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/kind_messages.h"

namespace nerf {
namespace {

// In the order of JobKind.
constexpr std::array kKinds = {&kTrainingMessages, &kRenderMessages, &kPoseMessages,
                               &kExportMessages};

v1::WatchJobResponse::Kind ToProtoKind(WatchEventKind kind) {
  switch (kind) {
    case WatchEventKind::kSnapshot:
      return v1::WatchJobResponse::SNAPSHOT;
    case WatchEventKind::kStateChanged:
      return v1::WatchJobResponse::STATE_CHANGED;
    case WatchEventKind::kProgress:
      return v1::WatchJobResponse::PROGRESS;
    case WatchEventKind::kCheckpointCommitted:
      return v1::WatchJobResponse::CHECKPOINT_COMMITTED;
    case WatchEventKind::kUpdated:
      return v1::WatchJobResponse::UPDATED;
  }
  return v1::WatchJobResponse::KIND_UNSPECIFIED;
}

absl::Time Deadline(std::string_view field, bool is_set, const google::protobuf::Timestamp& time,
                    RequestCheck& check) {
  if (!is_set) return absl::InfiniteFuture();
  return TakeOr(FromProto(field, time), check);
}

}  // namespace

const KindMessages& MessagesOf(JobKind kind) { return *kKinds[static_cast<size_t>(kind)]; }

v1::Job ToProto(const Job& job, bool whole) {
  v1::Job proto = JobMessage(job, whole);
  if (const auto add_sizes = MessagesOf(job.kind).add_sizes) add_sizes(job, &proto);
  return proto;
}

v1::WatchJobResponse ToProto(const WatchEvent& event) {
  v1::WatchJobResponse proto;
  proto.set_kind(ToProtoKind(event.kind));
  proto.set_resume_token(event.token);
  proto.set_sequence(static_cast<double>(event.sequence));
  proto.set_gap(event.gap);
  *proto.mutable_job() = ToProto(event.job, /*whole=*/false);
  return proto;
}

v1::DesiredJob ToProto(const LeaseGrant& grant) {
  v1::DesiredJob order;
  order.set_job(JobName(grant.lease.job));
  order.set_lease_epoch(grant.lease.epoch);
  *order.mutable_lease_ttl() = ToProto(grant.ttl);
  order.set_part(grant.lease.part);
  MessagesOf(grant.job.kind).fill_order(grant, &order);
  return order;
}

absl::StatusOr<JobSpec> FromProto(const v1::CreateJobRequest& request) {
  RequestCheck check;
  JobSpec spec;
  const v1::Job& job = request.job();
  spec.project = TakeOr(ParseProjectName("parent", request.parent()), check);
  spec.id = request.job_id();
  spec.request_id = request.request_id();
  spec.display_name = job.display_name();
  spec.priority = job.priority();
  spec.labels = JobLabels(job.labels().begin(), job.labels().end());
  spec.start_by =
      Deadline("job.start_by_time", job.has_start_by_time(), job.start_by_time(), check);
  spec.end_by = Deadline("job.end_by_time", job.has_end_by_time(), job.end_by_time(), check);
  CheckJobNames(spec, check);
  const std::optional<JobKind> kind = KindOfSpec(job);
  check.Require(kind.has_value(), "job.spec", "must be one of training, render, pose and export");
  if (!kind.has_value()) return check.Result();
  spec.kind = *kind;
  NERF_RETURN_IF_ERROR(MessagesOf(*kind).parse(request, check, &spec));
  return spec;
}

absl::StatusOr<JobSpec> FromProto(const v1::RetryJobRequest& request) {
  RequestCheck check;
  JobSpec spec;
  const ResourceKey job = TakeOr(ParseJobName("name", request.name()), check);
  spec.project = job.project;
  spec.retry_of = job.id;
  spec.id = request.job_id();
  check.RequireId("job_id", spec.id, /*may_be_empty=*/true);
  spec.request_id = request.request_id();
  check.RequireRequestId("request_id", spec.request_id);
  NERF_RETURN_IF_ERROR(check.Result());
  return spec;
}

absl::StatusOr<JobSpec> FromProto(const v1::ExtendJobRequest& request) {
  RequestCheck check;
  JobSpec spec;
  const ResourceKey job = TakeOr(ParseJobName("name", request.name()), check);
  spec.project = job.project;
  spec.id = request.job_id();
  check.RequireId("job_id", spec.id, /*may_be_empty=*/true);
  spec.request_id = request.request_id();
  check.RequireRequestId("request_id", spec.request_id);
  TrainConfig config;
  Budget& total = config.budget;
  switch (request.total_case()) {
    case v1::ExtendJobRequest::kSteps:
      total = {BudgetKind::kSteps, static_cast<double>(request.steps())};
      break;
    case v1::ExtendJobRequest::kSamples:
      total = {BudgetKind::kSamples, request.samples()};
      break;
    case v1::ExtendJobRequest::kSeconds:
      total = {BudgetKind::kSeconds, request.seconds()};
      break;
    case v1::ExtendJobRequest::TOTAL_NOT_SET:
      check.Require(false, "total", "must be steps, samples or seconds");
      break;
  }
  spec.extension = {job.id, {std::string(BudgetKindName(total.kind)), total.amount}};
  const absl::Status allowed = CheckBudgetAndSplit(config);
  check.Require(allowed.ok(), spec.extension.total.kind, std::string(allowed.message()));
  NERF_RETURN_IF_ERROR(check.Result());
  return spec;
}

absl::StatusOr<JobUpdate> FromProto(const v1::UpdateJobRequest& request) {
  constexpr std::string_view kLabels = "labels.";
  const v1::Job& job = request.job();
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
    } else if (path == "training.crop") {
      const v1::TrainingSpec& training = job.training();
      if (training.has_crop()) ReadCropBox("job.training.crop", training.crop(), &check);
      update.crop = training.crop();
      update.crop->DiscardUnknownFields();
    } else if (path == "labels") {
      update.labels = JobLabels(job.labels().begin(), job.labels().end());
    } else if (path == "start_by_time") {
      update.start_by =
          Deadline("job.start_by_time", job.has_start_by_time(), job.start_by_time(), check);
    } else if (path == "end_by_time") {
      update.end_by = Deadline("job.end_by_time", job.has_end_by_time(), job.end_by_time(), check);
    } else if (IsLabelKey(label)) {
      const auto found = job.labels().find(std::string(label));
      update.some_labels[std::string(label)] =
          found == job.labels().end() ? std::nullopt : std::optional(found->second);
    } else {
      check.Require(false, "update_mask",
                    "must be of display_name, priority, start_by_time, end_by_time, training.crop, "
                    "labels and labels.KEY");
    }
  }
  NERF_RETURN_IF_ERROR(check.Result());
  return update;
}

}  // namespace nerf
