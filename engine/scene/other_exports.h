#pragma once

#include <string>

#include "engine/scene/scene_files.h"

namespace nerf {

// Names the program that made a folder without a data set that is read, and what to export there in
// its place: "Record3D's raw capture: ...". Empty if none is known.
std::string OtherExport(const SceneFolder& folder);

}  // namespace nerf
