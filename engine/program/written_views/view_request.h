#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/field/files/checkpoint.h"
#include "engine/scene/camera.h"

namespace nerf {

// The camera in the asked size, in pixels. One side of 0 follows the aspect. 0 for both takes the
// camera's size, if `limited` reduced to kMaxDefaultViewPixels. Errors: InvalidArgument beyond the
// limits of a view.
absl::StatusOr<Camera> CameraOfSize(const Camera& camera, int width, int height, bool limited);

// The cameras of a camera file, in the training frame of `state`, with the size width x height. If
// both are 0 the camera's size is used; if one is 0 the aspect ratio is kept; frames without a size
// need both. Errors: NotFound, or InvalidArgument naming the field.
absl::StatusOr<std::vector<Camera>> CamerasOfFile(const std::string& path, const TrainState& state,
                                                  int width, int height);
// The same from the file's text; `source` names it in messages.
absl::StatusOr<std::vector<Camera>> CamerasFromText(std::string_view json_text,
                                                    std::string_view source,
                                                    const TrainState& state, int width, int height);

}  // namespace nerf
