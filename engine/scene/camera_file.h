#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// Reads cameras of the transforms.json shape: frames[] with transform_matrix (camera-to-world,
// OpenGL) and w, h, fl_x, fl_y, cx, cy, optional camera_model and distortion, at file or at frame
// level. Cameras are in the data set's own frame, in the order of the file. Errors: NotFound, or
// InvalidArgument that lists every problem with its field.
absl::StatusOr<std::vector<Camera>> ReadCameraFile(const std::string& path);
// The same from JSON text; `source` names it in messages.
absl::StatusOr<std::vector<Camera>> ParseCameras(std::string_view json_text,
                                                 std::string_view source = "cameras");

// Carries a camera of the data set's own frame into the training frame, and back.
Camera ToTrainingFrame(const Camera& own, const SceneFrame& frame);
Camera ToOwnFrame(const Camera& training, const SceneFrame& frame);

}  // namespace nerf
