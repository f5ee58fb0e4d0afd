#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/render_service.pb.h"
#include "server/rpc/request_broker.h"
#include "server/rpc/service_context.h"

namespace nerf {

// Checks camera or orbit, sizes, channels and format, but not the source. Errors: InvalidArgument
// that lists every wrong field.
absl::Status CheckView(const v1::RenderImageRequest& request);

// InvalidArgument that lists every wrong field of a camera.
absl::Status CheckCamera(const v1::Camera& camera);

// Finds the file to render, or the running job and its worker.
absl::StatusOr<BrokerRequest> PrepareRender(const ServiceContext& services,
                                            const v1::RenderImageRequest& request);

}  // namespace nerf
