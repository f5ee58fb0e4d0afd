#include "server/rpc/services/services.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "nerf/v1/render_service.grpc.pb.h"
#include "server/access/method_policy.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/convert/convert_render.h"
#include "server/rpc/convert/render_reply.h"
#include "server/rpc/convert/render_request.h"
#include "server/rpc/services/brokered_call.h"

namespace nerf {
namespace {

std::string ResultLabel(const absl::Status& status) {
  if (status.ok()) return "ok";
  if (const auto found = GetReason(status); found.has_value()) return found->reason;
  return absl::StatusCodeToString(status.code());
}

// The project of what is rendered; its name was checked with the permission.
std::string ProjectOf(const v1::RenderImageRequest& request) {
  for (const std::string& name : {request.model(), request.checkpoint(), request.training_job()}) {
    if (!name.empty()) return ResourceOf(name).project;
  }
  return "";
}

// Lets the caller's project read the images that are sent as blobs.
void OwnImages(const v1::RenderImageResponse& response, const std::string& project,
               BlobOwners* owners) {
  for (const v1::RenderedImage& image : response.images()) {
    if (image.has_blob()) owners->Add(project, image.blob().sha256());
  }
}

// nerf.v1.RenderService: checks the request, finds the weights and lets a worker render.
class RenderService final : public v1::RenderService::CallbackService {
 public:
  explicit RenderService(const ServiceContext* services) : services_(*services) {}

  UnaryReactor* RenderImage(CallContext* context, const v1::RenderImageRequest* request,
                            v1::RenderImageResponse* response) override {
    // Counts the render in its project's quota until it ends.
    auto ticket = std::make_shared<std::shared_ptr<RenderTicket>>();
    auto style = std::make_shared<v1::ViewStyle>();
    return BrokeredCall::Begin(
        services_, "nerf.v1.RenderService/RenderImage", context, *request,
        [=, this]() -> absl::StatusOr<BrokerRequest> {
          if (services_.admin != nullptr) {
            NERF_ASSIGN_OR_RETURN(*ticket, services_.admin->BeginRender(ProjectOf(*request)));
          }
          NERF_ASSIGN_OR_RETURN(BrokerRequest prepared, PrepareRender(services_, *request));
          *style = prepared.message.render().view().style();
          return prepared;
        },
        [this, ticket, style, request, response, in_blobs = request->in_blobs(),
         start = services_.clock.Now()](absl::StatusOr<BrokerReply> reply) {
          ticket->reset();
          const absl::Status status =
              reply.ok() ? FillRenderResponse(*reply, in_blobs, services_.blobs, response)
                         : reply.status();
          if (status.ok() && style->has_crop()) *response->mutable_crop() = style->crop();
          OwnImages(*response, ProjectOf(*request), &services_.blob_owners);
          services_.metrics.RenderFinished("image", ResultLabel(status),
                                           absl::ToDoubleSeconds(services_.clock.Now() - start));
          return status;
        });
  }

  UnaryReactor* ExpandCameraPath(CallContext* context, const v1::ExpandCameraPathRequest* request,
                                 v1::ExpandCameraPathResponse* response) override {
    return AnswerUnary(services_, "nerf.v1.RenderService/ExpandCameraPath", context, *request, [=] {
      NERF_RETURN_IF_ERROR(ParseProjectName("parent", request->parent()).status());
      NERF_ASSIGN_OR_RETURN(
          std::vector<v1::Camera> cameras,
          ExpandPath("path", request->path(), request->width(), request->height()));
      for (v1::Camera& camera : cameras) *response->add_cameras() = std::move(camera);
      return absl::OkStatus();
    });
  }

 private:
  const ServiceContext& services_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeRenderService(const ServiceContext* services) {
  return std::make_unique<RenderService>(services);
}

}  // namespace nerf
