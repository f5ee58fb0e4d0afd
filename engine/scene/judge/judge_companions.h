#pragma once

#include "engine/scene/files/scene_files.h"
#include "engine/scene/judge/verdict.h"
#include "engine/scene/scene_description.h"

namespace nerf {

// Warns of pictures in the folder that are masks or depths by their names or folders, where the
// scene uses none of them, and says of masks of another program that are used.
void JudgeCompanions(const SceneFolder& folder, const SceneDescription& description,
                     Verdicts* verdicts);

}  // namespace nerf
