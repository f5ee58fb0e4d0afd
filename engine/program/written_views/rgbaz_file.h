#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/scene/camera.h"
#include "engine/scene/pictures/exr_codec.h"
#include "engine/scene/scene.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// What a view is seen from.
struct SeenFrom {
  Camera camera;  // training frame
  SceneFrame frame;
};

// The camera as the header of a picture has it, in the data set's own frame. Only lenses without
// distortion have world_to_ndc.
ExrCamera ExrCameraOf(const SeenFrom& seen_from);

// An EXR file with all of a view that was rendered with straight alpha (EncodeExrView). Z is the
// distance along the ray in the data set's unit, 0 where there is nothing. Errors: Cancelled.
absl::StatusOr<std::string> EncodeRgbaz(const ViewPicture& view, const SeenFrom& seen_from,
                                        const std::stop_token& stop);

}  // namespace nerf
