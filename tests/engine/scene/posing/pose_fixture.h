#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/scene/pictures/image.h"

// Photographs and EXIF blocks for tests of engine/scene/posing.
namespace nerf {

struct ExifContent {
  int orientation = 1;
  std::string model = "Camera";  // at least 4 characters: shorter ones have another place
  int focal_35mm = 26;
};

// A block with make, model, orientation and a nested folder with the focal length.
inline std::string MakeExif(const ExifContent& content, bool is_big = false) {
  std::string tiff = is_big ? "MM" : "II";
  const auto add16 = [&](int value) {
    const char low = static_cast<char>(value & 0xff), high = static_cast<char>(value >> 8 & 0xff);
    tiff += is_big ? high : low;
    tiff += is_big ? low : high;
  };
  const auto add32 = [&](int value) {
    add16(is_big ? value >> 16 : value & 0xffff);
    add16(is_big ? value & 0xffff : value >> 16);
  };
  const auto add_short = [&](int tag, int value) {
    add16(tag), add16(3), add32(1), add16(value), add16(0);
  };
  add16(42), add32(8);
  constexpr int kEntries = 3, kNested = 8 + 2 + 12 * kEntries + 4, kText = kNested + 2 + 12 + 4;
  add16(kEntries);
  add16(0x0110), add16(2), add32(static_cast<int>(content.model.size()) + 1), add32(kText);
  add_short(0x0112, content.orientation);
  add16(0x8769), add16(4), add32(1), add32(kNested);
  add32(0);
  add16(1);
  add_short(0xa405, content.focal_35mm);
  add32(0);
  tiff += content.model;
  tiff += '\0';
  return std::string("Exif\0\0", 6) + tiff;
}

inline ImageU8 GradientImage(int width, int height) {
  ImageU8 image;
  image.width = width;
  image.height = height;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.pixels.push_back(static_cast<uint8_t>(x * 255 / width));
      image.pixels.push_back(static_cast<uint8_t>(y * 255 / height));
      image.pixels.push_back(100);
    }
  }
  return image;
}

// Blocks of random brightness, different for each seed; `blur` is the half width of a box over
// them.
inline ImageU8 TexturedImage(int width, int height, uint32_t seed, int blur = 0) {
  ImageU8 sharp;
  sharp.width = width;
  sharp.height = height;
  sharp.n_channels = 3;
  sharp.pixels.resize(static_cast<size_t>(width) * height * 3);
  uint32_t state = seed * 2654435761u + 1;
  const int cell = 5;
  std::string cells;
  for (int i = 0; i < (width / cell + 1) * (height / cell + 1); ++i) {
    state = state * 1664525u + 1013904223u;
    cells += static_cast<char>(state >> 24);
  }
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const size_t at = static_cast<size_t>(y / cell * (width / cell + 1) + x / cell);
      for (int c = 0; c < 3; ++c) {
        sharp.pixels[(static_cast<size_t>(y) * width + x) * 3 + c] =
            static_cast<uint8_t>(cells[at]);
      }
    }
  }
  if (blur == 0) return sharp;
  ImageU8 blurred = sharp;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      int sum = 0, n = 0;
      for (int dy = -blur; dy <= blur; ++dy) {
        for (int dx = -blur; dx <= blur; ++dx) {
          const int u = x + dx, v = y + dy;
          if (u < 0 || v < 0 || u >= width || v >= height) continue;
          sum += sharp.Pixel(u, v)[0];
          ++n;
        }
      }
      for (int c = 0; c < 3; ++c) {
        blurred.pixels[(static_cast<size_t>(y) * width + x) * 3 + c] =
            static_cast<uint8_t>(sum / n);
      }
    }
  }
  return blurred;
}

}  // namespace nerf
