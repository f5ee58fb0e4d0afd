#pragma once

#include <vector>

#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"

namespace nerf {

// Whether the folder contains a COLMAP model at sparse/0, sparse or colmap/sparse/0.
bool HasColmapModel(const SceneFolder& folder);

// Reads the cameras and images of that model, binary files if present, else text, and finds the
// pictures in images/. Poses are OpenGL camera-to-world in COLMAP's world frame. Camera models that
// docs/use/datasets.md does not list are problems. Points are read if they are there: the scene
// is placed by them.
ListedViews ReadColmap(const SceneFolder& folder, Problems* problems);

}  // namespace nerf
