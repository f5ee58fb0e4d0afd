#pragma once

#include <span>
#include <string>

#include "engine/export/files/export_axes.h"
#include "engine/scene/camera.h"

namespace nerf {

// A camera and the names of its pictures.
struct NamedCamera {
  std::string file;
  Camera camera;           // training frame
  std::string depth = "";  // depth_file_path; empty: none
  bool is_test = false;    // of a test view
};

// Whether transforms.json has a name for the lens.
bool IsListedLens(LensModel lens);

// The cameras in the format of transforms.json, which ReadCameraFile reads; where there are test
// views, with the lists of files by which nerfstudio splits a data set. Requires: axes are not
// mirrored, lenses are IsListedLens.
std::string CameraListJson(std::span<const NamedCamera> cameras, const ExportAxes& axes);

}  // namespace nerf
