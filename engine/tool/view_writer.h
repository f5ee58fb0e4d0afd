#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/render/render_device.h"
#include "engine/scene/image.h"

namespace nerf {

// Which images of a rendered view are wanted.
struct ViewChannels {
  bool rgb = false, depth = false, opacity = false;
};
// Of the words rgb, depth and opacity. Errors: InvalidArgument; at least one is needed.
absl::StatusOr<ViewChannels> ParseChannels(const std::vector<std::string>& words);

// Depths in the data set's own units: training units / scale.
std::vector<float> OwnDepths(const ViewPicture& view, float scale);

// The smallest number of two significant digits that no depth exceeds; 1 where all are 0.
float FarOf(float largest_depth);

// depth / far * 65535, rounded.
std::vector<uint16_t> DepthToGray(const std::vector<float>& depths, float far);

// Opacity as an 8-bit gray image.
ImageU8 OpacityImage(const ViewPicture& view);

}  // namespace nerf
