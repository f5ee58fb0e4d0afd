#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/config/view_limits.h"
#include "nerf/v1/render_service.pb.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/calls/request_broker.h"
#include "server/rpc/calls/service_context.h"

namespace nerf {

// Checks camera or orbit, sizes, channels and format, but not the source. Errors: InvalidArgument
// that lists every wrong field.
absl::Status CheckView(const v1::RenderImageRequest& request);

// InvalidArgument that lists every wrong field of a camera.
absl::Status CheckCamera(const v1::Camera& camera);

// Adds what is wrong with a camera-to-world matrix of 16 numbers, row by row.
void CheckCameraMatrix(std::string_view field,
                       const google::protobuf::RepeatedField<double>& matrix, RequestCheck& check);

// Names the wrong parts of a box "`field`.center[0]" and so on.
void CheckCropBox(std::string_view field, const v1::CropBox& box, RequestCheck& check);

// Adds what is wrong with a style, and with a picture of width x height pixels (0: not asked) if it
// is a panorama. `prefix` comes before names of fields: "job.render.".
void CheckViewStyle(std::string_view prefix, const v1::ViewStyle& style, ViewSize asked,
                    RequestCheck& check);
// Adds what is wrong with RGBA or RGB in these channels beside each other.
void CheckColorChannels(std::string_view field,
                        const google::protobuf::RepeatedField<int>& channels, RequestCheck& check);

// The feature that a worker needs to render so (WorkerHello): kStyleFeature, or empty for what
// workers of every version render.
std::string_view FeatureOfViews(const v1::ViewStyle& style,
                                const google::protobuf::RepeatedField<int>& channels,
                                v1::ImageFormat format);

// Finds the file to render, or the running job and its worker.
absl::StatusOr<BrokerRequest> PrepareRender(const ServiceContext& services,
                                            const v1::RenderImageRequest& request);

}  // namespace nerf
