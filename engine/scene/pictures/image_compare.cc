#include "engine/scene/pictures/image_compare.h"

#include <cmath>

#include "engine/base/check.h"

namespace nerf {

ImageU8 CompositedOn(const ImageU8& image, Vec3 background) {
  ImageU8 result{image.width, image.height, 3, {}};
  const size_t n_pixels = static_cast<size_t>(image.width) * image.height;
  result.pixels.resize(n_pixels * 3);
  for (size_t i = 0; i < n_pixels; ++i) {
    const uint8_t* pixel = image.pixels.data() + i * image.n_channels;
    const unsigned alpha = image.n_channels == 4 ? pixel[3] : 255u;
    for (int c = 0; c < 3; ++c) {
      const unsigned behind = static_cast<unsigned>(std::lround(background[c] * 255));
      const unsigned value = pixel[image.n_channels < 3 ? 0 : c];
      result.pixels[3 * i + c] =
          static_cast<uint8_t>((value * alpha + behind * (255 - alpha) + 127) / 255);
    }
  }
  return result;
}

double PsnrFromSquaredError(double mean_squared_error) {
  if (!(mean_squared_error > 1e-10)) return kMaxPsnr;
  return -10 * std::log10(mean_squared_error);
}

double Psnr(const ImageU8& a, const ImageU8& b) {
  NERF_CHECK(a.n_channels == 3 && b.n_channels == 3 && a.pixels.size() == b.pixels.size());
  NERF_CHECK(!a.pixels.empty());
  uint64_t sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    const int difference = a.pixels[i] - b.pixels[i];
    sum += static_cast<uint64_t>(difference * difference);
  }
  return PsnrFromSquaredError(static_cast<double>(sum) /
                              (255.0 * 255.0 * static_cast<double>(a.pixels.size())));
}

}  // namespace nerf
