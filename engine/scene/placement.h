#pragma once

#include <string>
#include <vector>

#include "engine/base/placement.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/pose.h"
#include "engine/scene/scene.h"

namespace nerf {

// Makes the positions of views and points relative to placement.json's origin, or else to their
// local origin (LocalOrigin); the offset of instant-ngp that a file names follows. Once per list.
void SubtractOrigin(ListedViews* listed);

// The similarity from a data set's own frame to the training frame. It follows from the flavor; for
// nerfstudio and COLMAP from the points that photographs show, else from where the cameras look,
// else from where they stand; `wanted` overrides each. Sets the geometry except for the cameras'
// statistics, and warns of what has no effect. Requires: SubtractOrigin was called.
Similarity PlaceScene(const ListedViews& listed, const Placement& wanted, SceneGeometry* geometry,
                      std::vector<std::string>* warnings);

}  // namespace nerf
