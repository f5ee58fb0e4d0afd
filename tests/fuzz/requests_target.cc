#include <string>
#include <vector>

#include "common/messages/deterministic_bytes.h"
#include "common/messages/worker_limits.h"
#include "nerf/v1/job_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/records/job_message.h"
#include "server/queue/records/stored_job.h"
#include "server/queue/state/job_filter.h"
#include "server/rpc/convert/convert_export.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/convert_model.h"
#include "server/rpc/convert/convert_pose.h"
#include "server/rpc/convert/convert_project.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/convert_report.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/convert_share.h"
#include "server/rpc/convert/convert_token.h"
#include "server/rpc/convert/kind_messages.h"
#include "server/rpc/convert/render_request.h"
#include "server/rpc/convert/view_request.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/sample_jobs.h"

namespace nerf {
namespace {

// The first byte says which message follows.
enum RequestKind {
  kCreateJob,
  kUpdateJob,
  kExtendJob,
  kCreateScene,
  kUpdateModel,
  kUpdateProject,
  kCreateShare,
  kCreateToken,
  kRenderImage,
  kStreamViews,
  kJobReport,
  kCommitCheckpoint,
  kCommitFrames,
  kCommitPoses,
  kFilter,
  kRequestKinds
};

std::string Request(RequestKind kind, const google::protobuf::MessageLite& message) {
  return static_cast<char>(kind) + DeterministicBytes(message);
}

std::vector<std::string> RequestSeeds() {
  std::vector<std::string> seeds;
  for (const Job& job : SampleJobs()) {
    v1::CreateJobRequest create;
    *create.mutable_job() = JobMessage(job, /*whole=*/true);
    seeds.push_back(Request(kCreateJob, create));
    v1::UpdateJobRequest update;
    *update.mutable_job() = create.job();
    for (const char* path : {"display_name", "labels", "labels.team", "priority", "training.crop"})
      update.mutable_update_mask()->add_paths(path);
    seeds.push_back(Request(kUpdateJob, update));
    v1::JobReport report;
    report.set_job("projects/default/jobs/j");
    report.set_phase(v1::JobReport::RUNNING);
    *report.mutable_progress() = job.progress.training();
    *report.mutable_pose_progress() = job.progress.pose();
    *report.mutable_export_progress() = job.progress.export_();
    if (job.export_result.has_value()) *report.mutable_export_result() = *job.export_result;
    *report.mutable_error() = create.job().error();
    *report.mutable_problems() = create.job().problems();
    seeds.push_back(Request(kJobReport, report));
  }
  v1::ExtendJobRequest extend;
  extend.set_name("projects/default/jobs/j");
  extend.set_samples(2e6);
  seeds.push_back(Request(kExtendJob, extend));
  v1::CreateSceneRequest scene;
  scene.mutable_scene()->add_files()->set_path("transforms.json");
  seeds.push_back(Request(kCreateScene, scene));
  v1::RenderImageRequest image;
  image.set_model("projects/default/models/m");
  image.mutable_orbit()->set_count(4);
  image.add_channels(v1::RGB);
  seeds.push_back(Request(kRenderImage, image));
  v1::CommitPosesRequest poses;
  poses.set_job("projects/default/jobs/j");
  poses.add_files()->set_path("images/a.jpg");
  seeds.push_back(Request(kCommitPoses, poses));
  v1::CommitFramesRequest frames;
  frames.set_job("projects/default/jobs/j");
  frames.add_frames()->set_index(3);
  seeds.push_back(Request(kCommitFrames, frames));
  seeds.push_back(static_cast<char>(kFilter) +
                  std::string("kind = training AND labels.team = \"blue\" AND priority >= 10"));
  return seeds;
}

// The job that a spec becomes, as JobQueue makes it.
Job JobOf(const JobSpec& spec) {
  Job job;
  job.key = {spec.project, "j"};
  job.kind = spec.kind;
  job.display_name = spec.display_name;
  job.priority = spec.priority;
  job.labels = spec.labels;
  job.start_by = spec.start_by;
  job.end_by = spec.end_by;
  job.training = spec.training;
  if (job.training.init.has_value() && !job.training.init->IsNamed()) job.training.init.reset();
  job.render = spec.render;
  job.pose = spec.pose;
  job.exporting = spec.exporting;
  const FoundModel found = {SampleBlob("model"), "ngp", {}, 7};
  PolicyOf(job).UseModel(spec.model, found, job);
  return job;
}

std::string CheckCreate(const v1::CreateJobRequest& request) {
  const absl::StatusOr<JobSpec> spec = FromProto(request);
  if (!spec.ok() || !PolicyOf(spec->kind).CheckSpec(*spec, request.validate_only()).ok()) return "";
  const Job job = JobOf(*spec);
  const internal::JobRecord written = ToRecord(job);
  Job read;
  read.key = job.key;
  if (const absl::Status status = FromRecord(written, &read); !status.ok())
    return "an accepted job is not read back: " + std::string(status.message());
  if (!AreEqual(ToRecord(read), written)) return "an accepted job is read as something else";
  LeaseGrant grant;
  grant.job = job;
  grant.lease = {job.key, "w", 1, 0};
  ToProto(grant);
  return "";
}

std::string CheckReport(const v1::JobReport& report) {
  ParseLease("job", report).IgnoreError();
  ReportedResult(report.export_result()).IgnoreError();
  for (const KindPolicy* kind : KindPolicy::All())
    MessagesOf(kind->traits().kind).parse_progress(report).IgnoreError();
  Job job = SampleJobs().front();
  job.error = ToJobError(report);
  if (job.error.problems.size() > kMaxProblems + 1) return "too many problems are kept";
  if (const auto progress = ReportedProgress(report.progress()); progress.ok()) {
    if (progress->figures_size() > kMaxFigures) return "too many figures are kept";
    *job.progress.mutable_training() = *progress;
  }
  const internal::JobRecord written = ToRecord(job);
  Job read;
  read.key = job.key;
  if (!FromRecord(written, &read).ok()) return "what was reported is not read back";
  return AreEqual(ToRecord(read), written) ? "" : "what was reported is read as something else";
}

// Calls `reader` with the bytes as its message.
template <typename Message, typename Reader>
std::string With(const std::string& bytes, Reader reader) {
  Message message;
  if (message.ParseFromString(bytes)) reader(message);
  return "";
}

constexpr auto kRead = [](const auto& message) { FromProto(message).IgnoreError(); };

std::string CheckRequestBytes(std::string_view input) {
  if (input.empty()) return "";
  const std::string bytes(input.substr(1));
  switch (static_cast<RequestKind>(static_cast<uint8_t>(input[0]) % kRequestKinds)) {
    case kCreateJob: {
      v1::CreateJobRequest request;
      return request.ParseFromString(bytes) ? CheckCreate(request) : "";
    }
    case kUpdateJob:
      return With<v1::UpdateJobRequest>(bytes, kRead);
    case kExtendJob:
      return With<v1::ExtendJobRequest>(bytes, kRead);
    case kCreateScene:
      return With<v1::CreateSceneRequest>(bytes, kRead);
    case kUpdateModel:
      return With<v1::UpdateModelRequest>(bytes, kRead);
    case kUpdateProject:
      return With<v1::UpdateProjectRequest>(bytes, kRead);
    case kCreateShare:
      return With<v1::CreateShareRequest>(bytes, kRead);
    case kCreateToken:
      return With<v1::CreateTokenRequest>(bytes, kRead);
    case kRenderImage:
      return With<v1::RenderImageRequest>(
          bytes, [](const auto& request) { CheckView(request).IgnoreError(); });
    case kStreamViews:
      return With<v1::StreamViewsRequest>(
          bytes, [](const auto& request) { CheckLiveRequest(request).IgnoreError(); });
    case kJobReport: {
      v1::JobReport report;
      return report.ParseFromString(bytes) ? CheckReport(report) : "";
    }
    case kCommitCheckpoint:
      return With<v1::CommitCheckpointRequest>(bytes, kRead);
    case kCommitFrames:
      return With<v1::CommitFramesRequest>(bytes, kRead);
    case kCommitPoses:
      return With<v1::CommitPosesRequest>(bytes, kRead);
    default: {
      const absl::StatusOr<JobFilter> filter = JobFilter::Parse(bytes);
      if (!filter.ok()) return "";
      for (const Job& job : SampleJobs()) filter->Matches(job);
      return "";
    }
  }
}

}  // namespace

const FuzzTarget kRequestsTarget = {"requests", RequestSeeds, CheckRequestBytes};

}  // namespace nerf
