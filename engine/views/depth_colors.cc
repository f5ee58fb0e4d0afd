#include "engine/views/depth_colors.h"

#include <algorithm>
#include <cmath>

namespace nerf {

std::array<uint8_t, 3> TurboColor(float t) {
  static constexpr float kColors[9][3] = {{48, 18, 59},   {70, 98, 216},  {54, 170, 249},
                                          {26, 228, 182}, {114, 254, 94}, {199, 239, 52},
                                          {251, 185, 56}, {246, 107, 25}, {122, 4, 3}};
  const float at = std::clamp(std::isfinite(t) ? t : 1.0f, 0.0f, 1.0f) * 8;
  const int i = std::min(7, static_cast<int>(at));
  const float u = at - static_cast<float>(i);
  std::array<uint8_t, 3> color;
  for (size_t c = 0; c < 3; ++c) {
    color[c] = static_cast<uint8_t>(std::lround(kColors[i][c] * (1 - u) + kColors[i + 1][c] * u));
  }
  return color;
}

void DepthRange::Add(const std::vector<float>& depths) {
  constexpr size_t kPerView = 4096;
  const size_t stride = depths.size() / kPerView + 1;
  for (size_t i = stride / 2; i < depths.size(); i += stride) {
    if (depths[i] > 0 && std::isfinite(depths[i])) depths_.push_back(depths[i]);
  }
}

std::array<float, 2> DepthRange::Bounds() const {
  if (depths_.empty()) return {0, 1};
  std::vector<float> sorted = depths_;
  std::sort(sorted.begin(), sorted.end());
  const size_t cut = sorted.size() / 50;
  return {sorted[cut], sorted[sorted.size() - 1 - cut]};
}

std::vector<uint16_t> DepthToGray(const std::vector<float>& depths, float far) {
  std::vector<uint16_t> gray;
  gray.reserve(depths.size());
  for (float depth : depths) {
    const float share = std::clamp(depth / far, 0.0f, 1.0f);
    gray.push_back(static_cast<uint16_t>(std::lround(share * 65535)));
  }
  return gray;
}

ImageU8 DepthInColor(int width, int height, const std::vector<float>& depths,
                     const std::array<float, 2>& bounds) {
  ImageU8 image;
  image.width = width;
  image.height = height;
  image.n_channels = 3;
  image.pixels.reserve(depths.size() * 3);
  const float extent = std::max(bounds[1] - bounds[0], 1e-12f);
  for (const float depth : depths) {
    const std::array<uint8_t, 3> color =
        depth > 0 ? TurboColor(1 - (depth - bounds[0]) / extent) : std::array<uint8_t, 3>{0, 0, 0};
    image.pixels.insert(image.pixels.end(), color.begin(), color.end());
  }
  return image;
}

}  // namespace nerf
