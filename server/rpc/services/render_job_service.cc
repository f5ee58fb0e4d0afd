#include "server/rpc/services/services.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "nerf/v1/render_job_service.grpc.pb.h"
#include "server/queue/kinds/render_work.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_render.h"
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

// Render jobs for clients.
class RenderJobService final : public v1::RenderJobService::CallbackService {
 public:
  explicit RenderJobService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* CreateRenderJob(CallContext* context, const v1::CreateRenderJobRequest* request,
                                v1::RenderJob* response) override {
    return AnswerCreateJob(services_, "nerf.v1.RenderJobService/CreateRenderJob", context, request,
                           response, [=, this]() -> absl::StatusOr<JobSpec> {
                             NERF_ASSIGN_OR_RETURN(JobSpec spec, FromProto(*request));
                             if (spec.render.movie)
                               NERF_RETURN_IF_ERROR(RequireMovieMaker(services_));
                             return spec;
                           });
  }

  UnaryReactor* GetRenderJob(CallContext* context, const v1::GetRenderJobRequest* request,
                             v1::RenderJob* response) override {
    return AnswerGetJob(services_, "nerf.v1.RenderJobService/GetRenderJob", context, request,
                        response);
  }

  UnaryReactor* ListRenderJobs(CallContext* context, const v1::ListRenderJobsRequest* request,
                               v1::ListRenderJobsResponse* response) override {
    return AnswerListJobs(services_, "nerf.v1.RenderJobService/ListRenderJobs", context, request,
                          response, &v1::ListRenderJobsResponse::add_render_jobs);
  }

  grpc::ServerWriteReactor<v1::WatchRenderJobResponse>* WatchRenderJob(
      CallContext* context, const v1::WatchRenderJobRequest* request) override {
    return JobWatch<RenderWatch>::Begin(services_, context, *request);
  }

  UnaryReactor* CancelRenderJob(CallContext* context, const v1::CancelRenderJobRequest* request,
                                v1::RenderJob* response) override {
    return AnswerJob(services_, "nerf.v1.RenderJobService/CancelRenderJob", context, request,
                     response, [this](const ResourceKey& key) {
                       return services_.queue.Cancel(key, /*keep_checkpoint=*/false,
                                                     JobKind::kRender);
                     });
  }

  UnaryReactor* DeleteRenderJob(CallContext* context, const v1::DeleteRenderJobRequest* request,
                                google::protobuf::Empty* /*response*/) override {
    return AnswerDeleteJob(services_, "nerf.v1.RenderJobService/DeleteRenderJob", JobKind::kRender,
                           context, request);
  }

  UnaryReactor* ExpandCameraPath(CallContext* context, const v1::ExpandCameraPathRequest* request,
                                 v1::ExpandCameraPathResponse* response) override {
    return AnswerUnary(
        services_, "nerf.v1.RenderJobService/ExpandCameraPath", context, *request, [=] {
          NERF_RETURN_IF_ERROR(ParseProjectName("parent", request->parent()).status());
          NERF_ASSIGN_OR_RETURN(
              std::vector<v1::Camera> cameras,
              ExpandPath("path", request->path(), request->width(), request->height()));
          for (v1::Camera& camera : cameras) *response->add_cameras() = std::move(camera);
          return absl::OkStatus();
        });
  }

 private:
  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeRenderJobService(const ServiceContext* services) {
  return std::make_unique<RenderJobService>(services);
}

}  // namespace nerf
