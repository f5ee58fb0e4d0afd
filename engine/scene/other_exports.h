#pragma once

#include <string>

#include "engine/scene/scene_files.h"

namespace nerf {

// What to do with a folder that holds no data set under its usual names, by what is in it: a list
// of views under another name, an export of another program, an archive. Empty if nothing of that
// kind is in it.
std::string OtherExport(const SceneFolder& folder);

// Whether that has poses, which posing the photographs beside it would throw away.
bool HasOtherPoses(const SceneFolder& folder);

}  // namespace nerf
