#pragma once

#include <string>
#include <vector>

#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/pictures/image_io.h"

// Photographs that their EXIF orientation turns upright.
namespace nerf {

// Whether it is one of those that change the sides of a picture for each other.
bool IsSideways(int orientation);

// The orientation that the photograph's EXIF states; 1 without.
int OrientationOf(const SceneFolder& folder, const std::string& file);

// Whether a picture has the stated shape only after a quarter turn.
bool FitsSideways(const Intrinsics& intrinsics, const ImageHeader& header);

// The orientations of the listed photographs, whose headers become those of the upright ones.
std::vector<int> TurnUpright(const SceneFolder& folder, const ListedViews& listed,
                             std::vector<ImageHeader>* headers);

}  // namespace nerf
