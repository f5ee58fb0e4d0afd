#pragma once

#include <vector>

#include "engine/scene/listed_views.h"
#include "engine/scene/scene_files.h"

namespace nerf {

// True when the folder holds a COLMAP model at sparse/0, sparse or colmap/sparse/0.
bool HasColmapModel(const SceneFolder& folder);

// Reads cameras and images of that model, binary before text, and finds the pictures in images/.
// Poses come out as OpenGL camera-to-world in COLMAP's own world frame. Camera models 0 to 4;
// others are refused by name. Points are skipped.
ListedViews ReadColmap(const SceneFolder& folder, std::vector<SceneProblem>* problems);

}  // namespace nerf
