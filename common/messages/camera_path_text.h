#pragma once

#include <string>

#include "nerf/v1/render_service.pb.h"

namespace nerf {

// The path as a file that `nerf-engine export --camera` reads: cameras as transforms.json has them,
// each with its own size and lens, or keyframes as `nerfctl job render --keyframes` reads them,
// with what the path lasts at 30 frames a second. Requires: cameras or keyframes.
std::string CameraPathText(const v1::CameraPath& path);

}  // namespace nerf
