#pragma once

#include "common/ids.h"
#include "nerf/v1/view_service.grpc.pb.h"
#include "server/metrics/view_metrics.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/services/live_views.h"

namespace nerf {

// nerf.v1.ViewService: live views.
class ViewService final : public v1::ViewService::CallbackService {
 public:
  // Both outlive it.
  ViewService(const ServiceContext* services, RandomSource* random);

  grpc::ServerWriteReactor<v1::StreamViewsResponse>* StreamViews(
      grpc::CallbackServerContext* context, const v1::StreamViewsRequest* request) override;
  grpc::ServerUnaryReactor* UpdateView(grpc::CallbackServerContext* context,
                                       const v1::UpdateViewRequest* request,
                                       v1::UpdateViewResponse* response) override;

 private:
  const ServiceContext& services_;
  ViewMetrics metrics_;
  LiveViews views_;
};

}  // namespace nerf
