#pragma once

#include <vector>

#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"

namespace nerf {

inline constexpr char kLlffFile[] = "poses_bounds.npy";

// Whether the folder has poses_bounds.npy.
bool HasLlff(const SceneFolder& folder);

// Reads an LLFF data set: poses_bounds.npy and the pictures of images/, or else of the least
// reduced images_N/, sorted by name. The file is an array of N rows of 17 numbers: a 3x5 matrix by
// rows, whose columns are the camera's down, right and backward axes, its position, and (height,
// width, focal length) in pixels of the full size; then the nearest and the farthest depth. The
// world is COLMAP's. Source: Mildenhall et al. 2019, Local Light Field Fusion.
ListedViews ReadLlff(const SceneFolder& folder, Problems* problems);

}  // namespace nerf
