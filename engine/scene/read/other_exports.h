#pragma once

#include <string>

#include "engine/scene/files/scene_files.h"

namespace nerf {

// What to do with a folder that holds no data set under its usual names, by what is in it: a list
// of views under another name, an export of another program, an archive, pictures of kinds that are
// not read. Empty if nothing of that kind is in it.
std::string OtherExport(const SceneFolder& folder);

// Whether that keeps from finding poses: it has poses, which would be thrown away, or no picture
// that can be read.
bool CannotBePosed(const SceneFolder& folder);

}  // namespace nerf
