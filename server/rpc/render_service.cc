#include "server/rpc/render_service.h"

#include <string>

#include "absl/strings/ascii.h"
#include "common/error_reason.h"
#include "server/rpc/brokered_call.h"
#include "server/rpc/render_reply.h"
#include "server/rpc/render_request.h"

namespace nerf {
namespace {

std::string ResultLabel(const absl::Status& status) {
  if (status.ok()) return "ok";
  if (const auto found = GetReason(status); found.has_value()) return found->reason;
  return absl::StatusCodeToString(status.code());
}

}  // namespace

grpc::ServerUnaryReactor* RenderService::RenderImage(grpc::CallbackServerContext* context,
                                                     const v1::RenderImageRequest* request,
                                                     v1::RenderImageResponse* response) {
  return BrokeredCall::Begin(
      services_, "nerf.v1.RenderService/RenderImage", context,
      [=, this] { return PrepareRender(services_, *request); },
      [this, response, in_blobs = request->in_blobs(),
       start = services_.clock.Now()](absl::StatusOr<BrokerReply> reply) {
        const absl::Status status =
            reply.ok() ? FillRenderResponse(*reply, in_blobs, services_.blobs, response)
                       : reply.status();
        services_.metrics.RenderFinished("image", ResultLabel(status),
                                         absl::ToDoubleSeconds(services_.clock.Now() - start));
        return status;
      });
}

}  // namespace nerf
