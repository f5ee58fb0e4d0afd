#pragma once

#include <string>

#include "engine/scene/scene_reader.h"

namespace nerf {

// Share of the area of the training pictures whose rays meet the outermost box of the scene, 0 to
// 1: what the others show cannot be learned. 1 where there is no picture.
double FractionSeeingBox(const SceneDescription& description);

// Empty where the training pictures show the box, as those of an object that fills it do.
// Otherwise what is wrong, in the data set's own units, with the box that transforms.json should
// name where the cameras tell. Always empty for flavors that are placed by their cameras.
std::string BoxOutOfViewWarning(const SceneDescription& description);

}  // namespace nerf
