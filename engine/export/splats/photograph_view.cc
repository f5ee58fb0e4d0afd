#include "engine/export/splats/photograph_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/scene/pictures/image_resize.h"

namespace nerf {
namespace {

constexpr double kMaxFactor = 2;  // of a photograph's brightness

constexpr float kOpaque = 254.5f;  // and more is not masked

using Rgba = std::array<float, 4>;  // color on black, and opacity; 0 to 255

Rgba PixelOf(const ImageU8& image, int x, int y) {
  const uint8_t* const pixel = image.Pixel(x, y);
  const float opacity = image.n_channels == 4 ? pixel[3] : 255;
  Rgba value;
  for (int channel = 0; channel < 3; ++channel) {
    const float color = pixel[image.n_channels == 1 ? 0 : channel];
    value[channel] = color * opacity / 255;
  }
  value[3] = opacity;
  return value;
}

// Between the middles of pixels, linear; beyond the outermost ones as these. nullopt beyond the
// image.
std::optional<Rgba> ValueAt(const ImageU8& image, float x, float y) {
  const auto width = static_cast<float>(image.width), height = static_cast<float>(image.height);
  if (!(x >= 0 && y >= 0 && x < width && y < height)) return std::nullopt;
  const float from_x = std::clamp(x - 0.5f, 0.0f, width - 1);
  const float from_y = std::clamp(y - 0.5f, 0.0f, height - 1);
  const int left = static_cast<int>(from_x), top = static_cast<int>(from_y);
  const int right = std::min(left + 1, image.width - 1),
            below = std::min(top + 1, image.height - 1);
  const float share_x = from_x - static_cast<float>(left);
  const float share_y = from_y - static_cast<float>(top);
  const Rgba a = PixelOf(image, left, top), b = PixelOf(image, right, top),
             c = PixelOf(image, left, below), d = PixelOf(image, right, below);
  Rgba value;
  for (int i = 0; i < 4; ++i) {
    value[i] = (1 - share_y) * ((1 - share_x) * a[i] + share_x * b[i]) +
               share_y * ((1 - share_x) * c[i] + share_x * d[i]);
  }
  return value;
}

}  // namespace

bool CanShowPhotograph(const Camera& camera) {
  return camera.lens == LensModel::kPinhole || camera.lens == LensModel::kOpenCv;
}

void ShowPhotograph(const Camera& camera, const ImageU8& photograph, bool alpha_is_mask,
                    SplatView* view) {
  const Camera& pinhole = view->camera;
  const bool is_smaller = pinhole.width < photograph.width || pinhole.height < photograph.height;
  const ImageU8 reduced =
      is_smaller ? AreaResized(photograph, pinhole.width, pinhole.height) : ImageU8();
  const ImageU8& image = is_smaller ? reduced : photograph;
  const Camera own = Resized(camera, image.width, image.height);

  const size_t n = static_cast<size_t>(pinhole.width) * pinhole.height;
  std::vector<std::optional<Rgba>> values(n);
  double of_photograph[3] = {}, of_model[3] = {};  // brightness where both are
  for (size_t i = 0; i < n; ++i) {
    const auto column = static_cast<float>(i % static_cast<size_t>(pinhole.width));
    const auto row = static_cast<float>(i / static_cast<size_t>(pinhole.width));
    float u = (column + 0.5f - pinhole.cx) / pinhole.fl_x;
    float v = (row + 0.5f - pinhole.cy) / pinhole.fl_y;
    if (own.lens == LensModel::kOpenCv) Distort(own, u, v, &u, &v);
    values[i] = ValueAt(image, own.fl_x * u + own.cx, own.fl_y * v + own.cy);
    if (alpha_is_mask && values[i].has_value() && (*values[i])[3] < kOpaque) values[i].reset();
    if (!values[i].has_value()) continue;
    for (int channel = 0; channel < 3; ++channel) {
      of_photograph[channel] += (*values[i])[channel];
      of_model[channel] += view->rgba[4 * i + channel];
    }
  }
  Rgba factors = {1, 1, 1, 1};
  for (int channel = 0; channel < 3; ++channel) {
    if (!(of_photograph[channel] > 0)) continue;
    factors[channel] = static_cast<float>(
        std::clamp(of_model[channel] / of_photograph[channel], 1 / kMaxFactor, kMaxFactor));
  }
  for (size_t i = 0; i < n; ++i) {
    if (!values[i].has_value()) continue;
    for (int k = 0; k < 4; ++k) {
      view->rgba[4 * i + k] =
          static_cast<uint8_t>(std::lround(std::min(255.0f, (*values[i])[k] * factors[k])));
    }
  }
}

}  // namespace nerf
