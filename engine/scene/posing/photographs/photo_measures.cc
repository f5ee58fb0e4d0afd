#include "engine/scene/posing/photographs/photo_measures.h"

#include <algorithm>
#include <cmath>

namespace nerf {
namespace {

constexpr int kFingerprintSide = 16;
constexpr int kBlurRadius = 4;  // a box of 9 pixels

// Sums |value - previous neighbor| along one axis, and the part of it that a blur along that axis
// removes.
double SharpnessAlong(const float* values, int n_lines, int n, int64_t line_stride,
                      int64_t stride) {
  if (n < 2 * kBlurRadius + 2) return 0;
  double variation = 0, lost = 0;
  std::vector<double> sums(static_cast<size_t>(n) + 1);
  for (int line = 0; line < n_lines; ++line) {
    const float* at = values + line * line_stride;
    for (int i = 0; i < n; ++i) {
      sums[static_cast<size_t>(i) + 1] = sums[static_cast<size_t>(i)] + at[i * stride];
    }
    const auto blurred = [&](int i) {
      return (sums[static_cast<size_t>(i + kBlurRadius + 1)] -
              sums[static_cast<size_t>(i - kBlurRadius)]) /
             (2 * kBlurRadius + 1);
    };
    for (int i = kBlurRadius + 1; i < n - kBlurRadius; ++i) {
      const double step = std::abs(double{at[i * stride]} - at[(i - 1) * stride]);
      variation += step;
      lost += std::max(0.0, step - std::abs(blurred(i) - blurred(i - 1)));
    }
  }
  return variation > 0 ? lost / variation : 0;
}

}  // namespace

GrayImage ReducedGray(const ImageU8& image, int max_side) {
  const int longer = std::max(image.width, image.height);
  const double factor = std::max(1.0, static_cast<double>(longer) / max_side);
  GrayImage gray;
  gray.width = std::max(1, static_cast<int>(image.width / factor));
  gray.height = std::max(1, static_cast<int>(image.height / factor));
  gray.values.resize(static_cast<size_t>(gray.width) * gray.height);
  for (int y = 0; y < gray.height; ++y) {
    const int y0 = static_cast<int>(int64_t{y} * image.height / gray.height);
    const int y1 = static_cast<int>(int64_t{y + 1} * image.height / gray.height);
    for (int x = 0; x < gray.width; ++x) {
      const int x0 = static_cast<int>(int64_t{x} * image.width / gray.width);
      const int x1 = static_cast<int>(int64_t{x + 1} * image.width / gray.width);
      double sum = 0;
      for (int from_y = y0; from_y < y1; ++from_y) {
        for (int from_x = x0; from_x < x1; ++from_x) {
          const uint8_t* pixel = image.Pixel(from_x, from_y);
          sum += image.n_channels < 3 ? pixel[0]
                                      : 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
        }
      }
      gray.values[static_cast<size_t>(y) * gray.width + x] =
          static_cast<float>(sum / ((y1 - y0) * (x1 - x0)));
    }
  }
  return gray;
}

double Sharpness(const GrayImage& gray) {
  const double across = SharpnessAlong(gray.values.data(), gray.height, gray.width, gray.width, 1);
  const double down = SharpnessAlong(gray.values.data(), gray.width, gray.height, 1, gray.width);
  return std::min(across, down);
}

std::vector<float> Fingerprint(const GrayImage& gray) {
  constexpr size_t kCells = kFingerprintSide * kFingerprintSide;
  std::vector<double> sums(kCells), counts(kCells);
  for (int y = 0; y < gray.height; ++y) {
    for (int x = 0; x < gray.width; ++x) {
      const size_t cell =
          static_cast<size_t>(y * kFingerprintSide / gray.height) * kFingerprintSide +
          static_cast<size_t>(x * kFingerprintSide / gray.width);
      sums[cell] += gray.values[static_cast<size_t>(y) * gray.width + x];
      counts[cell] += 1;
    }
  }
  double mean = 0, square = 0;
  for (size_t i = 0; i < kCells; ++i) {
    sums[i] = counts[i] > 0 ? sums[i] / counts[i] : 0;
    mean += sums[i] / kCells;
  }
  for (size_t i = 0; i < kCells; ++i) square += (sums[i] - mean) * (sums[i] - mean) / kCells;
  const double scale = square > 1e-6 ? 1 / std::sqrt(square) : 0;
  std::vector<float> print(kCells);
  for (size_t i = 0; i < kCells; ++i) print[i] = static_cast<float>((sums[i] - mean) * scale);
  return print;
}

double FingerprintDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(double{a[i]} - b[i]);
  return a.empty() ? 0 : sum / static_cast<double>(a.size());
}

}  // namespace nerf
