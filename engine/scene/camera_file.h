#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// Sides of a picture in pixels; 0 where one is not known.
struct PictureSize {
  int width = 0, height = 0;
};

// Reads cameras of the transforms.json shape: frames[] with transform_matrix (camera-to-world,
// OpenGL) and w, h, fl_x, fl_y, cx, cy, optional camera_model and distortion, at file or at frame
// level. Frames without w and h, as Blender's files have them, take both sides of `absent_size`,
// and their intrinsics are those of a picture of that size. Cameras are in the data set's own
// frame, in the order of the file. Errors: NotFound, or InvalidArgument that lists every problem
// with its field.
// Where `path` is a folder: the cameras of the data set in it, of its test views or, where it holds
// none out, of all.
absl::StatusOr<std::vector<Camera>> ReadCameraFile(const std::string& path,
                                                   PictureSize absent_size = {});
// The same from JSON text; `source` names it in messages.
absl::StatusOr<std::vector<Camera>> ParseCameras(std::string_view json_text,
                                                 std::string_view source = "cameras",
                                                 PictureSize absent_size = {});

// Carries a camera of the data set's own frame into the training frame, and back.
Camera ToTrainingFrame(const Camera& own, const SceneFrame& frame);
Camera ToOwnFrame(const Camera& training, const SceneFrame& frame);

}  // namespace nerf
