#include "engine/scene/pictures/image_resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace nerf {
namespace {

// The part of an axis that one new pixel covers: old pixels from `first` on, with their shares.
struct Span {
  int first = 0;
  std::vector<float> shares;  // sum to 1
};

std::vector<Span> SpansOf(int old_size, int new_size) {
  std::vector<Span> spans(static_cast<size_t>(new_size));
  const double step = static_cast<double>(old_size) / new_size;
  for (int i = 0; i < new_size; ++i) {
    Span& span = spans[static_cast<size_t>(i)];
    const double begin = i * step, end = (i + 1) * step;
    if (step <= 1) {
      span.first = std::min(old_size - 1, static_cast<int>(begin + step / 2));
      span.shares = {1};
      continue;
    }
    span.first = static_cast<int>(begin);
    const int last = std::min(old_size, static_cast<int>(std::ceil(end - 1e-9)));
    for (int j = span.first; j < last; ++j) {
      const double covered = std::min(end, j + 1.0) - std::max(begin, static_cast<double>(j));
      span.shares.push_back(static_cast<float>(covered / step));
    }
  }
  return spans;
}

}  // namespace

ImageU8 AreaResized(const ImageU8& image, int width, int height) {
  if (width == image.width && height == image.height) return image;
  const int n = image.n_channels;
  const bool has_alpha = n == 4;
  ImageU8 resized;
  resized.width = width;
  resized.height = height;
  resized.n_channels = n;
  resized.pixels.resize(static_cast<size_t>(width) * height * n);
  const std::vector<Span> columns = SpansOf(image.width, width);
  const std::vector<Span> rows = SpansOf(image.height, height);
  // Rows of the old picture that one new row covers, already reduced along x. Colors with alpha are
  // premultiplied in here.
  std::vector<float> sums(static_cast<size_t>(width) * n);
  for (int y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    const Span& row = rows[static_cast<size_t>(y)];
    for (size_t r = 0; r < row.shares.size(); ++r) {
      for (int x = 0; x < width; ++x) {
        const Span& column = columns[static_cast<size_t>(x)];
        const uint8_t* pixel = image.Pixel(column.first, row.first + static_cast<int>(r));
        float* sum = &sums[static_cast<size_t>(x) * n];
        for (const float column_share : column.shares) {
          const float share = column_share * row.shares[r];
          const float alpha = has_alpha ? share * pixel[3] * (1.0f / 255) : share;
          for (int c = 0; c < std::min(n, 3); ++c) sum[c] += alpha * pixel[c];
          if (has_alpha) sum[3] += share * pixel[3];
          pixel += n;
        }
      }
    }
    uint8_t* out = &resized.pixels[static_cast<size_t>(y) * width * n];
    for (int x = 0; x < width; ++x) {
      const float* sum = &sums[static_cast<size_t>(x) * n];
      const float scale = has_alpha ? (sum[3] > 0 ? 255 / sum[3] : 0.0f) : 1.0f;
      for (int c = 0; c < n; ++c) {
        const float value = sum[c] * (c < 3 ? scale : 1.0f);
        *out++ = static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L));
      }
    }
  }
  return resized;
}

ReducedSize FitSide(int width, int height, int max_side) {
  const int longer = std::max(width, height);
  if (max_side <= 0 || longer <= max_side) return {width, height};
  const double factor = static_cast<double>(max_side) / longer;
  return {std::max(1, static_cast<int>(std::lround(width * factor))),
          std::max(1, static_cast<int>(std::lround(height * factor)))};
}

ReducedSize FitPixels(int width, int height, double max_pixels) {
  const double pixels = static_cast<double>(width) * height;
  if (!(max_pixels > 0) || pixels <= max_pixels) return {width, height};
  const double factor = std::sqrt(max_pixels / pixels);
  return {std::max(1, static_cast<int>(width * factor)),
          std::max(1, static_cast<int>(height * factor))};
}

}  // namespace nerf
