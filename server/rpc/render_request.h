#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/render_service.pb.h"
#include "server/rpc/request_broker.h"
#include "server/rpc/service_context.h"

namespace nerf {

// Checks everything that can be said of a render without its source: camera or orbit, sizes,
// channels, format. Every wrong field at once.
absl::Status CheckView(const v1::RenderImageRequest& request);

// Finds what to render from and the worker that must do it, if it must be a certain one.
absl::StatusOr<BrokerRequest> PrepareRender(const ServiceContext& services,
                                            const v1::RenderImageRequest& request);

}  // namespace nerf
