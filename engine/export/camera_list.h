#pragma once

#include <span>
#include <string>

#include "engine/export/export_axes.h"
#include "engine/scene/camera.h"

namespace nerf {

// A camera and the name of its picture.
struct NamedCamera {
  std::string file;
  Camera camera;  // training frame
};

// The cameras in the format of transforms.json, which ReadCameraFile reads. Requires: axes are not
// mirrored.
std::string CameraListJson(std::span<const NamedCamera> cameras, const ExportAxes& axes);

}  // namespace nerf
