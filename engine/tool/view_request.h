#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/field/occupancy_grid.h"
#include "engine/scene/camera.h"
#include "engine/train/checkpoint.h"

namespace nerf {

// The cameras of a camera file, carried into the training frame of `state` and resized. width and
// height of 0 take the camera's; one alone keeps the aspect; frames that state no size need both.
// Errors: NotFound, or InvalidArgument naming the field.
absl::StatusOr<std::vector<Camera>> CamerasOfFile(const std::string& path, const TrainState& state,
                                                  int width, int height);
// The same from the file's text; `source` names it in messages.
absl::StatusOr<std::vector<Camera>> CamerasFromText(std::string_view json_text,
                                                    std::string_view source,
                                                    const TrainState& state, int width, int height);

// `count` cameras on a circle around the center of the occupied box, with the lens of the scene's
// own cameras.
absl::StatusOr<std::vector<Camera>> CamerasOfOrbit(const TrainState& state,
                                                   const OccupancyGrid& grid, int count, int width,
                                                   int height);

}  // namespace nerf
