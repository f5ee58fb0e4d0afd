#pragma once

#include <span>
#include <string>

#include "engine/scene/camera.h"
#include "engine/scene/cameras/camera_path_file.h"

namespace nerf {

// A path in the format of another program, which ParseCameraPath reads: nerfstudio's
// camera_path.json, whose cameras are its views, or instant-ngp's base_cam.json, whose cameras are
// keyframes, of a closed path with is_loop. Cameras are written as pinholes, in the frame that they
// have. seconds: how long the path lasts. Requires: a camera; nerfstudio's all have the size of the
// first.
std::string CameraPathJson(PathTool tool, std::span<const Camera> cameras, double seconds,
                           bool is_loop = false);

}  // namespace nerf
