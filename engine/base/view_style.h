#pragma once

#include <optional>

#include "engine/base/vec3.h"

namespace nerf {

// A turned box in the data set's own frame and unit.
struct OwnBox {
  double center[3] = {0, 0, 0};
  double size[3] = {1, 1, 1};     // sides along the box's own axes
  double turn[4] = {0, 0, 0, 1};  // of those axes from the frame's: quaternion x, y, z, w
  bool operator==(const OwnBox&) const = default;
};

// How a picture holds the views of two eyes: none, above each other with the left eye's on top, or
// side by side.
enum class StereoLayout { kMono, kTopBottom, kLeftRight };

// A picture of all directions (equirectangular), or two of them with the eyes on a circle around
// the camera that look along its tangents (omnidirectional stereo; Ishiguro et al. 1992).
struct Panorama {
  StereoLayout stereo = StereoLayout::kMono;
  double eye_distance = 0;  // between the eyes, in the data set's unit; 0 for kMono
  bool operator==(const Panorama&) const = default;
};

// What is wanted of views besides their cameras.
struct ViewStyle {
  // sRGB, 0 to 1. Unset: what the model has learned that lies behind its boxes, else the color that
  // it was evaluated with.
  std::optional<Vec3> background;
  std::optional<OwnBox> crop;        // only what lies in it is shown
  std::optional<Panorama> panorama;  // in place of the camera's lens
  bool operator==(const ViewStyle&) const = default;
};

}  // namespace nerf
