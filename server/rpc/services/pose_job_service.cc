#include "server/rpc/services/pose_job_service.h"

#include "common/status_macros.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_pose.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/convert/paging.h"
#include "server/rpc/services/job_watch.h"
#include "server/rpc/services/owned_blobs.h"

namespace nerf {

grpc::ServerUnaryReactor* PoseJobService::CreatePoseJob(grpc::CallbackServerContext* context,
                                                        const v1::CreatePoseJobRequest* request,
                                                        v1::PoseJob* response) {
  return AnswerUnary(
      services_, "nerf.v1.PoseJobService/CreatePoseJob", context, *request,
      [=, this]() -> absl::Status {
        NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
        NERF_RETURN_IF_ERROR(RequireOwned(services_.blob_owners, spec.project, spec.pose.files));
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
  return AnswerUnary(
      services_, "nerf.v1.PoseJobService/GetPoseJob", context, *request,
      [=, this]() -> absl::Status {
        NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParsePoseJobName("name", request->name()));
        NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Get(key, JobKind::kPose));
        *response = JobConverter(services_).ToPoseProto(job, /*whole=*/true);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* PoseJobService::ListPoseJobs(grpc::CallbackServerContext* context,
                                                       const v1::ListPoseJobsRequest* request,
                                                       v1::ListPoseJobsResponse* response) {
  return AnswerUnary(services_, "nerf.v1.PoseJobService/ListPoseJobs", context, *request,
                     [=, this]() -> absl::Status {
                       JobConverter converter(services_);
                       return AnswerList(
                           *request, response,
                           [this](const PageRequest& page) {
                             return services_.queue.ListOfKind(page, JobKind::kPose);
                           },
                           [&](const Job& job, v1::ListPoseJobsResponse* list) {
                             *list->add_pose_jobs() = converter.ToPoseProto(job, /*whole=*/false);
                           });
                     });
}

grpc::ServerWriteReactor<v1::WatchPoseJobResponse>* PoseJobService::WatchPoseJob(
    grpc::CallbackServerContext* context, const v1::WatchPoseJobRequest* request) {
  return JobWatch<PoseWatch>::Begin(services_, context, *request);
}

grpc::ServerUnaryReactor* PoseJobService::CancelPoseJob(grpc::CallbackServerContext* context,
                                                        const v1::CancelPoseJobRequest* request,
                                                        v1::PoseJob* response) {
  return AnswerUnary(
      services_, "nerf.v1.PoseJobService/CancelPoseJob", context, *request,
      [=, this]() -> absl::Status {
        NERF_ASSIGN_OR_RETURN(const ResourceKey key, ParsePoseJobName("name", request->name()));
        NERF_ASSIGN_OR_RETURN(
            const Job job, services_.queue.Cancel(key, /*keep_checkpoint=*/false, JobKind::kPose));
        *response = JobConverter(services_).ToPoseProto(job, /*whole=*/false);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* PoseJobService::DeletePoseJob(grpc::CallbackServerContext* context,
                                                        const v1::DeletePoseJobRequest* request,
                                                        google::protobuf::Empty* /*response*/) {
  return AnswerUnary(services_, "nerf.v1.PoseJobService/DeletePoseJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(const ResourceKey key,
                                             ParsePoseJobName("name", request->name()));
                       return services_.queue.Delete(key, JobKind::kPose);
                     });
}

}  // namespace nerf
