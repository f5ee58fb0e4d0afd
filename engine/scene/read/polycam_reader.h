#pragma once

#include <vector>

#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"

namespace nerf {

// Whether the folder is a raw export of Polycam: keyframes/cameras/ or
// keyframes/corrected_cameras/.
bool HasPolycam(const SceneFolder& folder);

// Reads Polycam's raw export. Each keyframes/cameras/STAMP.json has fx, fy, cx, cy, width, height
// and t_00 to t_23, the three rows of the camera-to-world matrix with OpenGL's axes, +Y up. Its
// photograph is keyframes/images/STAMP.jpg. The corrected_ folders, adjusted by the app, come first
// where they are there; sizes that they lack are those of the first ones, else the pictures'.
// Problems: missing or broken fields.
ListedViews ReadPolycam(const SceneFolder& folder, Problems* problems);

}  // namespace nerf
