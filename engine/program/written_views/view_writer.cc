#include "engine/program/written_views/view_writer.h"

#include <algorithm>
#include <cmath>

namespace nerf {

std::vector<float> OwnDepths(const ViewPicture& view, float scale) {
  std::vector<float> depths = view.depths;
  for (float& depth : depths) depth /= scale;
  return depths;
}

float FarOf(float largest_depth) {
  if (!(largest_depth > 0) || !std::isfinite(largest_depth)) return 1;
  const double unit = std::pow(10.0, std::floor(std::log10(largest_depth)) - 1);
  // The tolerance keeps 4.3f, which is slightly above 4.3, from becoming 4.4.
  const auto far = static_cast<float>(std::ceil(largest_depth / unit - 1e-5) * unit);
  return std::max(far, largest_depth);
}

ImageU8 OpacityImage(const ViewPicture& view) {
  const std::vector<uint8_t>& rgba = view.rgba.pixels;
  ImageU8 image{view.rgba.width, view.rgba.height, 1, {}};
  image.pixels.reserve(rgba.size() / 4);
  for (size_t i = 3; i < rgba.size(); i += 4) image.pixels.push_back(rgba[i]);
  return image;
}

}  // namespace nerf
