#include "server/rpc/render_service.h"

#include <fmt/format.h>

#include <string>

#include "absl/strings/ascii.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/rpc/brokered_call.h"
#include "server/rpc/convert_common.h"
#include "server/rpc/render_request.h"

namespace nerf {
namespace {

absl::Status ParseReply(const absl::StatusOr<BrokerReply>& reply,
                        v1::RenderImageResponse* response) {
  NERF_RETURN_IF_ERROR(reply.status());
  if (!response->ParseFromString(reply->bytes)) {
    response->Clear();
    return absl::InternalError(fmt::format("worker {} sent no image", reply->worker));
  }
  response->set_worker(WorkerName(reply->worker));
  return absl::OkStatus();
}

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
      [this, response, start = services_.clock.Now()](absl::StatusOr<BrokerReply> reply) {
        absl::Status status = ParseReply(reply, response);
        services_.metrics.RenderFinished("image", ResultLabel(status),
                                         absl::ToDoubleSeconds(services_.clock.Now() - start));
        return status;
      });
}

}  // namespace nerf
