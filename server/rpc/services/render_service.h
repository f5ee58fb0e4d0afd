#pragma once

#include "nerf/v1/render_service.grpc.pb.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// nerf.v1.RenderService: checks the request, finds the weights and lets a worker render.
class RenderService final : public v1::RenderService::CallbackService {
 public:
  explicit RenderService(const ServiceContext* services) : services_(*services) {}

  grpc::ServerUnaryReactor* RenderImage(grpc::CallbackServerContext* context,
                                        const v1::RenderImageRequest* request,
                                        v1::RenderImageResponse* response) override;

 private:
  const ServiceContext& services_;
};

}  // namespace nerf
