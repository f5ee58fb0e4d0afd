#pragma once

#include "nerf/v1/export_job_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Export jobs for clients.
class ExportJobService final : public v1::ExportJobService::CallbackService {
 public:
  explicit ExportJobService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* CreateExportJob(grpc::CallbackServerContext* context,
                                            const v1::CreateExportJobRequest* request,
                                            v1::ExportJob* response) override;
  grpc::ServerUnaryReactor* GetExportJob(grpc::CallbackServerContext* context,
                                         const v1::GetExportJobRequest* request,
                                         v1::ExportJob* response) override;
  grpc::ServerUnaryReactor* ListExportJobs(grpc::CallbackServerContext* context,
                                           const v1::ListExportJobsRequest* request,
                                           v1::ListExportJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchExportJobResponse>* WatchExportJob(
      grpc::CallbackServerContext* context, const v1::WatchExportJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelExportJob(grpc::CallbackServerContext* context,
                                            const v1::CancelExportJobRequest* request,
                                            v1::ExportJob* response) override;
  grpc::ServerUnaryReactor* DeleteExportJob(grpc::CallbackServerContext* context,
                                            const v1::DeleteExportJobRequest* request,
                                            google::protobuf::Empty* response) override;

 private:
  const ServiceContext& services_;
};

}  // namespace nerf
