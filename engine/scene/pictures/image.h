#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nerf {

// An 8-bit sRGB image, rows top to bottom, channels interleaved: [height][width][n_channels].
// n_channels is 1 (gray), 3 (RGB) or 4 (RGB with straight alpha).
struct ImageU8 {
  int width = 0;
  int height = 0;
  int n_channels = 3;
  std::vector<uint8_t> pixels;

  const uint8_t* Pixel(int x, int y) const {
    return pixels.data() + (static_cast<size_t>(y) * width + x) * n_channels;
  }
};

// A 16-bit gray image, as depth maps are: [height][width], rows top to bottom.
struct GrayImage16 {
  int width = 0;
  int height = 0;
  std::vector<uint16_t> pixels;
};

}  // namespace nerf
