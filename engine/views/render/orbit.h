#pragma once

#include <vector>

#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// n cameras on a circle around `center` about geometry.mean_up, at the median distance and height
// of the scene's cameras, each looking at `center`. All in the training frame; size and lens are
// those of `intrinsics`, whose pose is ignored. center is that of the occupied box if it is known,
// else of geometry.box.
std::vector<Camera> OrbitCameras(const SceneGeometry& geometry, Vec3 center,
                                 const Camera& intrinsics, int n);

}  // namespace nerf
