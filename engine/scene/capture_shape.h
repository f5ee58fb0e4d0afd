#pragma once

#include "engine/scene/scene_reader.h"

namespace nerf {

// True where the training cameras stand all around the center of the box and look its way, as they
// do around an object: whatever the direction from which an orbit looks, somebody photographed from
// about there. False of what was photographed from one side or from within.
bool IsSeenFromAllSides(const SceneDescription& description);

}  // namespace nerf
