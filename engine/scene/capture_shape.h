#pragma once

#include "engine/scene/scene_reader.h"

namespace nerf {

// Whether the training cameras surround the center of the box and look at it, as for an object:
// then every view of an orbit is near some photograph. False if the scene was photographed from one
// side or from inside.
bool IsSeenFromAllSides(const SceneDescription& description);

}  // namespace nerf
