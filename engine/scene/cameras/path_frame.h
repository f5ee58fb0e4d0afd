#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/scene/cameras/camera_path_file.h"
#include "engine/scene/pose.h"
#include "engine/scene/scene.h"

namespace nerf {

// The frame that the program `tool` moves the data set in `dir` to: nerfstudio puts the mean camera
// position at the origin and the largest coordinate of a camera at 1, instant-ngp scales and shifts
// by the numbers in transforms.json. Images are not read. Errors: NotFound without the folder;
// InvalidArgument if it lists no views.
absl::StatusOr<SceneFrame> FrameOfTool(const std::string& dir, PathTool tool);

// The same for transforms.json with these cameras (poses in its frame, relative to `origin`), as it
// is exported: without instant-ngp's numbers, of which it then takes its defaults. At least one
// camera.
SceneFrame FrameOfCameras(std::span<const Pose> own_poses, const Vec3d& origin, PathTool tool);

// Whether that frame is the training frame of every data set of this flavor with this origin.
bool IsTrainingFrame(PathTool tool, SceneFlavor flavor, const Vec3d& origin);

}  // namespace nerf
