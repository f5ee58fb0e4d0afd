#pragma once

namespace nerf {

// What the camera matrices of a transforms file are.
enum class PoseConvention {
  kOpenGl,         // camera to world; the camera's axes are right, up, backwards
  kOpenCv,         // camera to world; right, down, forwards
  kWorldToCamera,  // world to camera, of either axes
};

// How a data set's files are read, as far as the user says so.
struct SceneReading {
  PoseConvention poses =
      PoseConvention::kOpenGl;  // of transforms files; other formats state theirs
  bool apply_exif = false;      // photographs are turned upright by their EXIF orientation
  bool operator==(const SceneReading&) const = default;
};

}  // namespace nerf
