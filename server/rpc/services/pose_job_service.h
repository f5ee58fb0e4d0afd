#pragma once

#include "nerf/v1/pose_job_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Pose jobs for clients.
class PoseJobService final : public v1::PoseJobService::CallbackService {
 public:
  explicit PoseJobService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* CreatePoseJob(grpc::CallbackServerContext* context,
                                          const v1::CreatePoseJobRequest* request,
                                          v1::PoseJob* response) override;
  grpc::ServerUnaryReactor* GetPoseJob(grpc::CallbackServerContext* context,
                                       const v1::GetPoseJobRequest* request,
                                       v1::PoseJob* response) override;
  grpc::ServerUnaryReactor* ListPoseJobs(grpc::CallbackServerContext* context,
                                         const v1::ListPoseJobsRequest* request,
                                         v1::ListPoseJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchPoseJobResponse>* WatchPoseJob(
      grpc::CallbackServerContext* context, const v1::WatchPoseJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelPoseJob(grpc::CallbackServerContext* context,
                                          const v1::CancelPoseJobRequest* request,
                                          v1::PoseJob* response) override;
  grpc::ServerUnaryReactor* DeletePoseJob(grpc::CallbackServerContext* context,
                                          const v1::DeletePoseJobRequest* request,
                                          google::protobuf::Empty* response) override;

 private:
  const ServiceContext& services_;
};

}  // namespace nerf
