#pragma once

#include "nerf/v1/admin_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// nerf.v1.AdminService, for operators.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  explicit AdminService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::Worker* response) override;
  grpc::ServerUnaryReactor* UndrainWorker(grpc::CallbackServerContext* context,
                                          const v1::UndrainWorkerRequest* request,
                                          v1::Worker* response) override;
  grpc::ServerUnaryReactor* ListProjects(grpc::CallbackServerContext* context,
                                         const v1::ListProjectsRequest* request,
                                         v1::ListProjectsResponse* response) override;
  grpc::ServerUnaryReactor* GetProject(grpc::CallbackServerContext* context,
                                       const v1::GetProjectRequest* request,
                                       v1::Project* response) override;
  grpc::ServerUnaryReactor* UpdateProject(grpc::CallbackServerContext* context,
                                          const v1::UpdateProjectRequest* request,
                                          v1::Project* response) override;
  grpc::ServerUnaryReactor* BackupStore(grpc::CallbackServerContext* context,
                                        const v1::BackupStoreRequest* request,
                                        v1::BackupStoreResponse* response) override;
  grpc::ServerUnaryReactor* GetAccess(grpc::CallbackServerContext* context,
                                      const v1::GetAccessRequest* request,
                                      v1::Access* response) override;
  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context,
                                        const v1::CreateTokenRequest* request,
                                        v1::Token* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context,
                                       const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* DeleteToken(grpc::CallbackServerContext* context,
                                        const v1::DeleteTokenRequest* request,
                                        google::protobuf::Empty* response) override;

 private:
  const ServiceContext& services_;
};

}  // namespace nerf
