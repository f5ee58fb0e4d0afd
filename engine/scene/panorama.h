#pragma once

#include <string>

#include "engine/base/view_style.h"
#include "engine/scene/camera.h"

namespace nerf {

// A camera of all directions at the origin: a turn from side to side, half of one from top to
// bottom. For both eyes the size is that of the picture that holds both.
Camera EquirectangularCamera(int width, int height, StereoLayout stereo = StereoLayout::kMono);

// The camera's pose and time with a panorama's lens. eye_distance in the frame's unit.
Camera PanoramaAt(const Camera& camera, int width, int height, const Panorama& panorama,
                  float eye_distance);
// The pose turned about its place, so that it stands upright and looks to the same side.
Mat34 LevelledPose(const Mat34& pose, Vec3 up);

// What tells programs that a picture of width x height pixels shows all directions: an XMP packet
// of the namespace GPano (Google, Photo Sphere XMP Metadata).
std::string PanoramaXmp(int width, int height);

}  // namespace nerf
