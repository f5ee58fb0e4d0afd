#include "server/rpc/services/view_service.h"

#include <cmath>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/resources/resource_error.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/view_request.h"
#include "server/rpc/services/live_view.h"

namespace nerf {

ViewService::ViewService(const ServiceContext* services, RandomSource* random)
    : services_(*services),
      metrics_(*services->metrics.registry()),
      views_(&services->workers, &metrics_, random) {}

grpc::ServerWriteReactor<v1::StreamViewsResponse>* ViewService::StreamViews(
    grpc::CallbackServerContext* context, const v1::StreamViewsRequest* request) {
  return LiveView::Begin(services_, &views_, context, *request);
}

grpc::ServerUnaryReactor* ViewService::UpdateView(grpc::CallbackServerContext* context,
                                                  const v1::UpdateViewRequest* request,
                                                  v1::UpdateViewResponse*) {
  return AnswerUnary(services_, "nerf.v1.ViewService/UpdateView", context, *request,
                     [request, this]() -> absl::Status {
                       NERF_RETURN_IF_ERROR(CheckLiveView(request->view()));
                       if (!std::isfinite(request->sequence()) || request->sequence() < 1) {
                         return InvalidFieldsError({{"sequence", "must be at least 1"}});
                       }
                       const auto view = views_.Find(request->name());
                       if (view == nullptr) return ResourceNotFound(request->name());
                       view->Update(request->view(), request->sequence());
                       return absl::OkStatus();
                     });
}

}  // namespace nerf
