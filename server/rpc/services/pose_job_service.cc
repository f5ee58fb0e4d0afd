#include "server/rpc/services/pose_job_service.h"

#include "common/status_macros.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_pose.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/services/job_calls.h"
#include "server/rpc/services/job_watch.h"
#include "server/rpc/services/owned_blobs.h"

namespace nerf {
namespace {

v1::PoseJob ConvertPoseJob(JobConverter& converter, const Job& job, bool whole) {
  return converter.ToPoseProto(job, whole);
}

// A worker gets the files of both in one message. Errors: ResourceExhausted SIZE_LIMIT.
absl::Status CheckOrderSize(SceneCatalog& scenes, const JobSpec& spec,
                            const v1::CreatePoseJobRequest& request) {
  if (spec.pose.into.empty()) return absl::OkStatus();
  const auto scene = scenes.Get({spec.project, spec.pose.into});
  if (!scene.ok()) return absl::OkStatus();  // Create says so, unless it was asked before
  v1::PoseTask task;
  AddManifest(scene->files, task.mutable_into_files());
  return CheckManifestSize(task.ByteSizeLong() + request.pose_job().ByteSizeLong());
}

}  // namespace

grpc::ServerUnaryReactor* PoseJobService::CreatePoseJob(grpc::CallbackServerContext* context,
                                                        const v1::CreatePoseJobRequest* request,
                                                        v1::PoseJob* response) {
  return AnswerUnary(
      services_, "nerf.v1.PoseJobService/CreatePoseJob", context, *request,
      [=, this]() -> absl::Status {
        NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
        NERF_RETURN_IF_ERROR(RequireOwned(services_.blob_owners, spec.project, spec.pose.files));
        NERF_RETURN_IF_ERROR(CheckOrderSize(services_.scenes, spec, *request));
        const CallOrigin origin = services_.origins->Of(context);
        spec.origin = {origin.traceparent, origin.request_id};
        NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Create(spec));
        *response = JobConverter(services_).ToPoseProto(job, /*whole=*/true);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* PoseJobService::GetPoseJob(grpc::CallbackServerContext* context,
                                                     const v1::GetPoseJobRequest* request,
                                                     v1::PoseJob* response) {
  return AnswerGetJob(services_, "nerf.v1.PoseJobService/GetPoseJob", JobKind::kPose, context,
                      request, response, ConvertPoseJob);
}

grpc::ServerUnaryReactor* PoseJobService::ListPoseJobs(grpc::CallbackServerContext* context,
                                                       const v1::ListPoseJobsRequest* request,
                                                       v1::ListPoseJobsResponse* response) {
  return AnswerListJobs(services_, "nerf.v1.PoseJobService/ListPoseJobs", JobKind::kPose, context,
                        request, response, &v1::ListPoseJobsResponse::add_pose_jobs,
                        ConvertPoseJob);
}

grpc::ServerWriteReactor<v1::WatchPoseJobResponse>* PoseJobService::WatchPoseJob(
    grpc::CallbackServerContext* context, const v1::WatchPoseJobRequest* request) {
  return JobWatch<PoseWatch>::Begin(services_, context, *request);
}

grpc::ServerUnaryReactor* PoseJobService::CancelPoseJob(grpc::CallbackServerContext* context,
                                                        const v1::CancelPoseJobRequest* request,
                                                        v1::PoseJob* response) {
  return AnswerCancelJob(services_, "nerf.v1.PoseJobService/CancelPoseJob", JobKind::kPose, context,
                         request, response, ConvertPoseJob);
}

grpc::ServerUnaryReactor* PoseJobService::DeletePoseJob(grpc::CallbackServerContext* context,
                                                        const v1::DeletePoseJobRequest* request,
                                                        google::protobuf::Empty* /*response*/) {
  return AnswerDeleteJob(services_, "nerf.v1.PoseJobService/DeletePoseJob", JobKind::kPose, context,
                         request);
}

}  // namespace nerf
