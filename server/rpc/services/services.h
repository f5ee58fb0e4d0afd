#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "common/ids.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// The services that clients call, for gRPC. What `services` names outlives them.
std::unique_ptr<grpc::Service> MakeAdminService(const ServiceContext* services);
std::unique_ptr<grpc::Service> MakeBlobService(const ServiceContext* services);
std::unique_ptr<grpc::Service> MakeByteStreamService(const ServiceContext* services);
std::unique_ptr<grpc::Service> MakeJobService(const ServiceContext* services);
std::unique_ptr<grpc::Service> MakeModelService(const ServiceContext* services);
std::unique_ptr<grpc::Service> MakeRenderService(const ServiceContext* services);
std::unique_ptr<grpc::Service> MakeSceneService(const ServiceContext* services);
// `random` draws the names of live views.
std::unique_ptr<grpc::Service> MakeViewService(const ServiceContext* services,
                                               RandomSource* random);

}  // namespace nerf
