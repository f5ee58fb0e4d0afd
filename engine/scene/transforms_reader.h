#pragma once

#include <vector>

#include "engine/scene/listed_views.h"
#include "engine/scene/scene_files.h"

namespace nerf {

// True when the folder holds transforms_{train,val,test}.json or transforms.json.
bool HasTransforms(const SceneFolder& folder);

// Reads the views of transforms_{train,val,test}.json, else of transforms.json: Blender's,
// instant-ngp's or nerfstudio's flavor, told apart by their keys. val is the test split where
// there is no test file, and unused beside one.
ListedViews ReadTransforms(const SceneFolder& folder, std::vector<SceneProblem>* problems);

}  // namespace nerf
