#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/pictures/image.h"
#include "engine/views/render/render_device.h"

namespace nerf {

// Images to write of a rendered view.
struct ViewChannels {
  bool rgb = false, depth = false, opacity = false;
  bool rgba = false;   // straight alpha, in place of rgb
  bool rgbaz = false;  // the same and depth in one EXR file
  bool HasAlpha() const { return rgba || rgbaz; }
  bool HasColor() const { return rgb || HasAlpha(); }
};

// Depths in units of the data set. scale: training units per unit of the data set.
std::vector<float> OwnDepths(const ViewPicture& view, float scale);

// The smallest number of two significant digits that is at least largest_depth; 1 for 0.
float FarOf(float largest_depth);

// Opacity as an 8-bit gray image.
ImageU8 OpacityImage(const ViewPicture& view);

}  // namespace nerf
