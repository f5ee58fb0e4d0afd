#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/aabb.h"
#include "engine/scene/camera.h"
#include "engine/train/checkpoint.h"

namespace nerf {

// The cameras of a camera file, in the training frame of `state`, with the size width x height. If
// both are 0 the camera's size is used; if one is 0 the aspect ratio is kept; frames without a size
// need both. Errors: NotFound, or InvalidArgument naming the field.
absl::StatusOr<std::vector<Camera>> CamerasOfFile(const std::string& path, const TrainState& state,
                                                  int width, int height);
// The same from the file's text; `source` names it in messages.
absl::StatusOr<std::vector<Camera>> CamerasFromText(std::string_view json_text,
                                                    std::string_view source,
                                                    const TrainState& state, int width, int height);

// `count` cameras on a circle around the center of the occupied box, with the intrinsics of
// state.reference_camera. Size as above.
absl::StatusOr<std::vector<Camera>> CamerasOfOrbit(const TrainState& state,
                                                   const Aabb& occupied_box, int count, int width,
                                                   int height);

}  // namespace nerf
