#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// Sides of a picture in pixels; 0: unknown.
struct PictureSize {
  int width = 0, height = 0;
};

// Reads cameras from a file in the format of transforms.json: frames[] with transform_matrix
// (camera-to-world, OpenGL) and w, h, fl_x, fl_y, cx, cy, optional camera_model and distortion, per
// file or per frame, and an optional time per frame. A frame with neither w nor h, as in Blender's
// files, gets both from `absent_size`, and its intrinsics apply to that size. Cameras are in the
// data set's own frame, in the order of the file. If `path` is a folder, the cameras are those of
// its data set's test views, or of all views if there are no test views. Their positions are
// relative to `origin`, which is in that frame. Errors: NotFound, or InvalidArgument that lists
// every problem with its field.
absl::StatusOr<std::vector<Camera>> ReadCameraFile(const std::string& path,
                                                   PictureSize absent_size = {},
                                                   const Vec3d& origin = {});
// The same from JSON text; `source` names it in messages.
absl::StatusOr<std::vector<Camera>> ParseCameras(std::string_view json_text,
                                                 std::string_view source = "cameras",
                                                 PictureSize absent_size = {},
                                                 const Vec3d& origin = {});

// Transforms a camera from the data set's own frame, relative to the frame's origin, to the
// training frame, and back.
Camera ToTrainingFrame(const Camera& own, const SceneFrame& frame);
Camera ToOwnFrame(const Camera& training, const SceneFrame& frame);
// The camera, relative to another origin.
Camera AboutOrigin(const Camera& own, const Vec3d& from, const Vec3d& to);
// From one training frame of a data set to another.
Camera BetweenFrames(const Camera& training, const SceneFrame& from, const SceneFrame& to);

}  // namespace nerf
