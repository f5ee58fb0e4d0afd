#pragma once

#include "nerf/v1/render_job_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Render jobs for clients.
class RenderJobService final : public v1::RenderJobService::CallbackService {
 public:
  explicit RenderJobService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* CreateRenderJob(grpc::CallbackServerContext* context,
                                            const v1::CreateRenderJobRequest* request,
                                            v1::RenderJob* response) override;
  grpc::ServerUnaryReactor* GetRenderJob(grpc::CallbackServerContext* context,
                                         const v1::GetRenderJobRequest* request,
                                         v1::RenderJob* response) override;
  grpc::ServerUnaryReactor* ListRenderJobs(grpc::CallbackServerContext* context,
                                           const v1::ListRenderJobsRequest* request,
                                           v1::ListRenderJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchRenderJobResponse>* WatchRenderJob(
      grpc::CallbackServerContext* context, const v1::WatchRenderJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelRenderJob(grpc::CallbackServerContext* context,
                                            const v1::CancelRenderJobRequest* request,
                                            v1::RenderJob* response) override;
  grpc::ServerUnaryReactor* DeleteRenderJob(grpc::CallbackServerContext* context,
                                            const v1::DeleteRenderJobRequest* request,
                                            google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* ExpandCameraPath(grpc::CallbackServerContext* context,
                                             const v1::ExpandCameraPathRequest* request,
                                             v1::ExpandCameraPathResponse* response) override;

 private:
  const ServiceContext& services_;
};

}  // namespace nerf
