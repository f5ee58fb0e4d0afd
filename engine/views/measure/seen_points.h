#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/vec3.h"
#include "engine/scene/camera.h"

namespace nerf {

// Whether ProjectPoint knows the lens: pinholes, with or without distortion.
bool CanProject(const Camera& camera);

// The image position of a point (the camera's world frame), in pixels; false where it lies behind
// the camera or beyond its picture. Requires CanProject.
bool ProjectPoint(const Camera& camera, Vec3 point, float* x, float* y);

// A view of the model from the place of a photograph. Shapes: [height * width].
struct DepthView {
  Camera camera;
  std::vector<float> depths;  // along the rays of its pixels; 0: nothing is there
  std::vector<float> gray;    // of the photograph, 0 to 1
};

// The point that a pixel shows.
Vec3 ShownPoint(const DepthView& view, int x, int y);

// How many of `others` see what each pixel of `view` shows, up to `enough`: it lies in their
// picture, nothing is before it there, and they see it from less than 45 degrees aside. Pixels that
// show nothing count as seen. Shape of the result: [height * width].
std::vector<uint8_t> CountSeeing(const DepthView& view, std::span<const DepthView> others,
                                 int enough);

}  // namespace nerf
