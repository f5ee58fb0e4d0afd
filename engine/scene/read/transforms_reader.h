#pragma once

#include <vector>

#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"

namespace nerf {

// Whether the folder contains transforms_{train,val,test}.json or transforms.json.
bool HasTransforms(const SceneFolder& folder);

// Reads the views of transforms_{train,val,test}.json, or else of transforms.json. The keys
// determine the flavor: Blender's, instant-ngp's or nerfstudio's. The val file is the test split if
// there is no test file, and is ignored otherwise.
ListedViews ReadTransforms(const SceneFolder& folder, Problems* problems);

}  // namespace nerf
