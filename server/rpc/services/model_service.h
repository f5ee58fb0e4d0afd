#pragma once

#include "nerf/v1/model_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// nerf.v1.ModelService on top of the model catalog and the jobs' checkpoints.
class ModelService final : public v1::ModelService::CallbackService {
 public:
  explicit ModelService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* PromoteCheckpoint(grpc::CallbackServerContext* context,
                                              const v1::PromoteCheckpointRequest* request,
                                              v1::Model* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* UpdateModel(grpc::CallbackServerContext* context,
                                        const v1::UpdateModelRequest* request,
                                        v1::Model* response) override;
  grpc::ServerUnaryReactor* DeleteModel(grpc::CallbackServerContext* context,
                                        const v1::DeleteModelRequest* request,
                                        google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* CreateShare(grpc::CallbackServerContext* context,
                                        const v1::CreateShareRequest* request,
                                        v1::Share* response) override;
  grpc::ServerUnaryReactor* ListShares(grpc::CallbackServerContext* context,
                                       const v1::ListSharesRequest* request,
                                       v1::ListSharesResponse* response) override;
  grpc::ServerUnaryReactor* RevokeShare(grpc::CallbackServerContext* context,
                                        const v1::RevokeShareRequest* request,
                                        google::protobuf::Empty* response) override;

 private:
  const ServiceContext& services_;
};

}  // namespace nerf
