#pragma once

#include <string>

#include "engine/scene/scene_description.h"

namespace nerf {

// Fraction of the area of the training pictures whose rays meet the scene's outermost box. What the
// other rays show cannot be learned. 1 if there is no picture.
double FractionSeeingBox(const SceneDescription& description);

// A warning for the user if the training pictures mostly miss the box, in the data set's own units,
// with a box for transforms.json that fits the cameras if one can be derived. Otherwise empty;
// always empty for flavors whose box is derived from the cameras.
std::string BoxOutOfViewWarning(const SceneDescription& description);

}  // namespace nerf
