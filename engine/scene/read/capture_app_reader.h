#pragma once

#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"

// Exports of other programs in plain formats: a camera in each JSON file, or all in one.
namespace nerf {

// Whether the folder has frame_*.json beside frame_*.jpg, as 3D Scanner App writes them, or a
// cameras.json as trainings of Gaussian splatting write it.
bool HasCaptureApp(const SceneFolder& folder);

// Reads them. 3D Scanner App: cameraPoseARFrame is camera to world with OpenGL's axes in 16
// numbers, row by row; intrinsics has 9, row by row; files without a pose are left out.
// Gaussian splatting: an array of img_name, width, height, fx, fy, position, and rotation, camera
// to world with OpenCV's axes. Problems: missing or broken fields.
ListedViews ReadCaptureApp(const SceneFolder& folder, Problems* problems);

}  // namespace nerf
