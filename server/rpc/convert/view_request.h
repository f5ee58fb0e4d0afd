#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "nerf/v1/render_service.pb.h"
#include "nerf/v1/view_service.pb.h"

namespace nerf {

// Checks all of a request but that its source exists. Errors: InvalidArgument FIELD_INVALID that
// lists every wrong field.
absl::Status CheckLiveRequest(const v1::StreamViewsRequest& request);
// The same for a view, which is the field `view` of its request.
absl::Status CheckLiveView(const v1::View& view);

// The frames per second that a request asks for, or the default.
double FramesPerSecond(const v1::StreamViewsRequest& request);

// The project of what is shown; its name was checked with the permission.
std::string ProjectOf(const v1::StreamViewsRequest& request);

// One frame of `view` in another size. `source` says what is rendered; its view is not read.
v1::RenderImageRequest FrameRequest(const v1::StreamViewsRequest& source, const v1::View& view,
                                    uint32_t width, uint32_t height);

}  // namespace nerf
