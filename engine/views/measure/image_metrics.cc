#include "engine/views/measure/image_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/check.h"

namespace nerf {
namespace {

constexpr uint8_t kCountingMask = 128;  // pixels of a darker mask are not compared
constexpr int kWindow = 11;
constexpr double kSigma = 1.5;
constexpr double kC1 = (0.01 * 255) * (0.01 * 255);
constexpr double kC2 = (0.03 * 255) * (0.03 * 255);

std::array<double, kWindow> GaussianWindow() {
  std::array<double, kWindow> weights{};
  double sum = 0;
  for (int i = 0; i < kWindow; ++i) {
    const int x = i - kWindow / 2;
    weights[i] = std::exp(-1.0 * x * x / (2 * kSigma * kSigma));
    sum += weights[i];
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Weighted means of a, b, a^2, b^2 and a b.
struct Moments {
  double a = 0, b = 0, aa = 0, bb = 0, ab = 0;

  void Add(double weight, const Moments& other) {
    a += weight * other.a;
    b += weight * other.b;
    aa += weight * other.aa;
    bb += weight * other.bb;
    ab += weight * other.ab;
  }
};

double SsimOf(const Moments& m) {
  const double variance_a = m.aa - m.a * m.a, variance_b = m.bb - m.b * m.b;
  const double covariance = m.ab - m.a * m.b;
  return (2 * m.a * m.b + kC1) * (2 * covariance + kC2) /
         ((m.a * m.a + m.b * m.b + kC1) * (variance_a + variance_b + kC2));
}

// Sum of SSIM over the windows whose top row is `row`. Blurs columns first, then along the row.
double SsimRowSum(const ImageU8& a, const ImageU8& b, int row,
                  const std::array<double, kWindow>& weights, std::vector<Moments>* columns) {
  double sum = 0;
  columns->resize(static_cast<size_t>(a.width));
  for (int channel = 0; channel < 3; ++channel) {
    for (int x = 0; x < a.width; ++x) {
      Moments column;
      for (int i = 0; i < kWindow; ++i) {
        const double va = a.Pixel(x, row + i)[channel], vb = b.Pixel(x, row + i)[channel];
        column.Add(weights[i], {va, vb, va * va, vb * vb, va * vb});
      }
      (*columns)[x] = column;
    }
    for (int x = 0; x + kWindow <= a.width; ++x) {
      Moments window;
      for (int i = 0; i < kWindow; ++i) window.Add(weights[i], (*columns)[x + i]);
      sum += SsimOf(window);
    }
  }
  return sum;
}

}  // namespace

bool PixelCounts(const ImageU8& photograph, bool alpha_is_mask, size_t pixel) {
  return !alpha_is_mask || photograph.n_channels != 4 ||
         photograph.pixels[4 * pixel + 3] >= kCountingMask;
}

ImageU8 WithoutAlpha(const ImageU8& photograph) {
  ImageU8 colors{photograph.width, photograph.height, 3, {}};
  const size_t n = static_cast<size_t>(photograph.width) * photograph.height;
  colors.pixels.resize(3 * n);
  for (size_t i = 0; i < n; ++i) {
    for (int channel = 0; channel < 3; ++channel) {
      colors.pixels[3 * i + channel] = photograph.pixels[photograph.n_channels * i + channel];
    }
  }
  return colors;
}

ImageU8 WithMaskedPixels(const ImageU8& image, const ImageU8& photograph) {
  ImageU8 masked = image;
  if (photograph.n_channels != 4) return masked;
  const size_t n = static_cast<size_t>(photograph.width) * photograph.height;
  for (size_t i = 0; i < n; ++i) {
    if (PixelCounts(photograph, true, i)) continue;
    for (int channel = 0; channel < 3; ++channel)
      masked.pixels[3 * i + channel] = photograph.pixels[4 * i + channel];
  }
  return masked;
}

double PsnrAgainst(const ImageU8& photograph, Vec3 background, bool alpha_is_mask,
                   const ImageU8& rendered) {
  if (!alpha_is_mask || photograph.n_channels != 4)
    return Psnr(rendered, CompositedOn(photograph, background));
  double squared = 0;
  size_t n_counting = 0;
  const size_t n = static_cast<size_t>(photograph.width) * photograph.height;
  for (size_t i = 0; i < n; ++i) {
    if (!PixelCounts(photograph, true, i)) continue;
    ++n_counting;
    for (int channel = 0; channel < 3; ++channel) {
      const double difference =
          rendered.pixels[3 * i + channel] - photograph.pixels[4 * i + channel];
      squared += difference * difference;
    }
  }
  if (n_counting == 0) return std::numeric_limits<double>::quiet_NaN();
  return PsnrFromSquaredError(squared / (3.0 * 255 * 255 * static_cast<double>(n_counting)));
}

double Ssim(const ImageU8& a, const ImageU8& b, ThreadPool* pool) {
  NERF_CHECK(a.n_channels == 3 && b.n_channels == 3);
  NERF_CHECK(a.width == b.width && a.height == b.height);
  if (a.width < kWindow || a.height < kWindow) return std::numeric_limits<double>::quiet_NaN();
  const std::array<double, kWindow> weights = GaussianWindow();
  const int n_rows = a.height - kWindow + 1, n_columns = a.width - kWindow + 1;
  std::vector<double> row_sums(static_cast<size_t>(n_rows));
  std::vector<std::vector<Moments>> columns(static_cast<size_t>(pool->n_threads()));
  pool->ParallelFor(n_rows, [&](int64_t row, int thread) {
    row_sums[static_cast<size_t>(row)] =
        SsimRowSum(a, b, static_cast<int>(row), weights, &columns[static_cast<size_t>(thread)]);
  });
  double sum = 0;
  for (double row_sum : row_sums) sum += row_sum;
  return sum / (3.0 * n_rows * n_columns);
}

}  // namespace nerf
