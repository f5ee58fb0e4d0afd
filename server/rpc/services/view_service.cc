#include "server/rpc/services/services.h"

#include <cmath>
#include <memory>

#include "common/error_reason.h"
#include "common/ids.h"
#include "common/status_macros.h"
#include "nerf/v1/view_service.grpc.pb.h"
#include "server/metrics/view_metrics.h"
#include "server/queue/resources/resource_error.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/view_request.h"
#include "server/rpc/services/live_view.h"
#include "server/rpc/services/live_views.h"

namespace nerf {
namespace {

// nerf.v1.ViewService: live views.
class ViewService final : public v1::ViewService::CallbackService {
 public:
  ViewService(const ServiceContext* services, RandomSource* random)
      : services_(*services),
        metrics_(*services->metrics.registry()),
        views_(&services->workers, &metrics_, random) {}

  grpc::ServerWriteReactor<v1::StreamViewsResponse>* StreamViews(
      CallContext* context, const v1::StreamViewsRequest* request) override {
    return LiveView::Begin(services_, &views_, context, *request);
  }

  UnaryReactor* UpdateView(CallContext* context, const v1::UpdateViewRequest* request,
                           v1::UpdateViewResponse*) override {
    return AnswerUnary(services_, "nerf.v1.ViewService/UpdateView", context, *request,
                       [request, this] {
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

 private:
  const ServiceContext& services_;
  ViewMetrics metrics_;
  LiveViews views_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeViewService(const ServiceContext* services,
                                               RandomSource* random) {
  return std::make_unique<ViewService>(services, random);
}

}  // namespace nerf
