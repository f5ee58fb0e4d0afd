#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/render_service.pb.h"
#include "server/rpc/calls/request_broker.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// InvalidArgument FIELD_INVALID that lists every wrong field; a source is not looked for.
absl::Status CheckView(const v1::RenderImageRequest& request);

// The feature that a worker needs to render so (WorkerHello): kStyleFeature, or empty for what
// workers of every version render.
std::string_view FeatureOfViews(const v1::ViewStyle& style,
                                const google::protobuf::RepeatedField<int>& channels,
                                v1::ImageFormat format);

// Finds the file to render, or the running job and its worker.
absl::StatusOr<BrokerRequest> PrepareRender(const ServiceContext& services,
                                            const v1::RenderImageRequest& request);

}  // namespace nerf
