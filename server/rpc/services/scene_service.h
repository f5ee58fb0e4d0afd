#pragma once

#include "nerf/v1/scene_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/convert/scene_descriptions.h"

namespace nerf {

// nerf.v1.SceneService on top of the scene catalog; ValidateScene goes to a worker.
class SceneService final : public v1::SceneService::CallbackService {
 public:
  explicit SceneService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* CreateScene(grpc::CallbackServerContext* context,
                                        const v1::CreateSceneRequest* request,
                                        v1::Scene* response) override;
  grpc::ServerUnaryReactor* GetScene(grpc::CallbackServerContext* context,
                                     const v1::GetSceneRequest* request,
                                     v1::Scene* response) override;
  grpc::ServerUnaryReactor* ListScenes(grpc::CallbackServerContext* context,
                                       const v1::ListScenesRequest* request,
                                       v1::ListScenesResponse* response) override;
  grpc::ServerUnaryReactor* DeleteScene(grpc::CallbackServerContext* context,
                                        const v1::DeleteSceneRequest* request,
                                        google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* ValidateScene(grpc::CallbackServerContext* context,
                                          const v1::ValidateSceneRequest* request,
                                          v1::ValidateSceneResponse* response) override;

  grpc::ServerUnaryReactor* DescribeScene(grpc::CallbackServerContext* context,
                                          const v1::DescribeSceneRequest* request,
                                          v1::DescribeSceneResponse* response) override;

 private:
  const ServiceContext& services_;
  SceneDescriptions descriptions_;
};

}  // namespace nerf
