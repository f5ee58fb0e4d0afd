#include "server/rpc/services/render_job_service.h"

#include <algorithm>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/jobs/render_work.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/job_converter.h"
#include "server/rpc/services/job_calls.h"
#include "server/rpc/services/job_watch.h"

namespace nerf {
namespace {

// Without a worker nothing is known: one that makes movies may come.
absl::Status RequireMovieMaker(const ServiceContext& services) {
  const WorkerList workers = services.workers.List();
  const auto is_connected = [](const WorkerRecord& worker) { return worker.connected; };
  const auto makes_movies = [](const WorkerRecord& worker) {
    return worker.connected && worker.description.Has(kMovieCapability);
  };
  if (std::ranges::none_of(*workers, is_connected) || std::ranges::any_of(*workers, makes_movies)) {
    return absl::OkStatus();
  }
  return WithReason(absl::UnimplementedError("no connected worker has ffmpeg, which makes movies"),
                    reason::kFeatureNotBuilt);
}

v1::RenderJob ConvertRenderJob(JobConverter& converter, const Job& job, bool whole) {
  return converter.ToRenderProto(job, whole);
}

}  // namespace

grpc::ServerUnaryReactor* RenderJobService::CreateRenderJob(
    grpc::CallbackServerContext* context, const v1::CreateRenderJobRequest* request,
    v1::RenderJob* response) {
  return AnswerUnary(services_, "nerf.v1.RenderJobService/CreateRenderJob", context, *request,
                     [=, this]() -> absl::Status {
                       NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                       const CallOrigin origin = services_.origins->Of(context);
                       spec.origin = {origin.traceparent, origin.request_id};
                       if (spec.render.movie) NERF_RETURN_IF_ERROR(RequireMovieMaker(services_));
                       NERF_ASSIGN_OR_RETURN(const Job job, services_.queue.Create(spec));
                       *response = JobConverter(services_).ToRenderProto(job, /*whole=*/true);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* RenderJobService::GetRenderJob(grpc::CallbackServerContext* context,
                                                         const v1::GetRenderJobRequest* request,
                                                         v1::RenderJob* response) {
  return AnswerGetJob(services_, "nerf.v1.RenderJobService/GetRenderJob", JobKind::kRender, context,
                      request, response, ConvertRenderJob);
}

grpc::ServerUnaryReactor* RenderJobService::ListRenderJobs(grpc::CallbackServerContext* context,
                                                           const v1::ListRenderJobsRequest* request,
                                                           v1::ListRenderJobsResponse* response) {
  return AnswerListJobs(services_, "nerf.v1.RenderJobService/ListRenderJobs", JobKind::kRender,
                        context, request, response, &v1::ListRenderJobsResponse::add_render_jobs,
                        ConvertRenderJob);
}

grpc::ServerWriteReactor<v1::WatchRenderJobResponse>* RenderJobService::WatchRenderJob(
    grpc::CallbackServerContext* context, const v1::WatchRenderJobRequest* request) {
  return JobWatch<RenderWatch>::Begin(services_, context, *request);
}

grpc::ServerUnaryReactor* RenderJobService::CancelRenderJob(
    grpc::CallbackServerContext* context, const v1::CancelRenderJobRequest* request,
    v1::RenderJob* response) {
  return AnswerCancelJob(services_, "nerf.v1.RenderJobService/CancelRenderJob", JobKind::kRender,
                         context, request, response, ConvertRenderJob);
}

grpc::ServerUnaryReactor* RenderJobService::DeleteRenderJob(
    grpc::CallbackServerContext* context, const v1::DeleteRenderJobRequest* request,
    google::protobuf::Empty* /*response*/) {
  return AnswerDeleteJob(services_, "nerf.v1.RenderJobService/DeleteRenderJob", JobKind::kRender,
                         context, request);
}

grpc::ServerUnaryReactor* RenderJobService::ExpandCameraPath(
    grpc::CallbackServerContext* context, const v1::ExpandCameraPathRequest* request,
    v1::ExpandCameraPathResponse* response) {
  return AnswerUnary(services_, "nerf.v1.RenderJobService/ExpandCameraPath", context, *request,
                     [=]() -> absl::Status {
                       NERF_RETURN_IF_ERROR(ParseProjectName("parent", request->parent()).status());
                       NERF_ASSIGN_OR_RETURN(std::vector<v1::Camera> cameras,
                                             ExpandPath("path", request->path(), request->width(),
                                                        request->height()));
                       for (v1::Camera& camera : cameras)
                         *response->add_cameras() = std::move(camera);
                       return absl::OkStatus();
                     });
}

}  // namespace nerf
