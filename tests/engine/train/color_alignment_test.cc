#include "engine/views/measure/color_alignment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "engine/views/measure/image_metrics.h"

namespace nerf {
namespace {

constexpr Vec3 kWhite = {1, 1, 1};

ImageU8 AlignmentNoise(int n_channels, unsigned seed, unsigned levels = 256) {
  std::mt19937 random(seed);
  ImageU8 image{16, 16, n_channels, {}};
  for (int i = 0; i < 16 * 16 * n_channels; ++i)
    image.pixels.push_back(static_cast<uint8_t>(random() % levels));
  return image;
}

// Mean squared error of the best affine map, by Gauss's elimination in long double.
double ReferencePsnr(const ImageU8& photograph, const ImageU8& rendered) {
  const size_t n = photograph.pixels.size() / 3;
  long double squared = 0;
  for (size_t channel = 0; channel < 3; ++channel) {
    long double rows[4][5] = {};
    const auto term = [&](size_t pixel, size_t i) -> long double {
      return i < 3 ? rendered.pixels[3 * pixel + i] / 255.0L : 1.0L;
    };
    for (size_t pixel = 0; pixel < n; ++pixel) {
      for (size_t i = 0; i < 4; ++i) {
        for (size_t j = 0; j < 4; ++j) rows[i][j] += term(pixel, i) * term(pixel, j);
        rows[i][4] += term(pixel, i) * photograph.pixels[3 * pixel + channel] / 255.0L;
      }
    }
    for (int i = 0; i < 4; ++i) {
      int pivot = i;
      for (int k = i; k < 4; ++k)
        pivot = std::abs(rows[k][i]) > std::abs(rows[pivot][i]) ? k : pivot;
      std::swap(rows[i], rows[pivot]);
      for (int k = 0; k < 4; ++k) {
        if (k == i) continue;
        const long double factor = rows[k][i] / rows[i][i];
        for (int j = 0; j < 5; ++j) rows[k][j] -= factor * rows[i][j];
      }
    }
    for (size_t pixel = 0; pixel < n; ++pixel) {
      long double difference = photograph.pixels[3 * pixel + channel] / 255.0L;
      for (size_t i = 0; i < 4; ++i) difference -= rows[i][4] / rows[i][i] * term(pixel, i);
      squared += difference * difference;
    }
  }
  return -10 * std::log10(static_cast<double>(squared / (3.0L * n)));
}

TEST(ColorAlignmentTest, AgreesWithTheReferenceAndIsNeverLowerThanWithout) {
  ImageU8 photograph = AlignmentNoise(3, 1);
  const ImageU8 rendered = AlignmentNoise(3, 2);
  for (size_t i = 0; i < photograph.pixels.size(); ++i) {
    // Related, channels mixed.
    const size_t other = i - i % 3 + (i + 1) % 3;
    photograph.pixels[i] = static_cast<uint8_t>(
        (photograph.pixels[i] + 3 * rendered.pixels[i] + 2 * rendered.pixels[other]) / 6);
  }
  const double psnr = ColorAlignedPsnr(photograph, kWhite, false, rendered);
  EXPECT_NEAR(psnr, ReferencePsnr(photograph, rendered), 1e-5);
  EXPECT_GT(psnr, PsnrAgainst(photograph, kWhite, false, rendered) + 1);
}

TEST(ColorAlignmentTest, ExposureTintAndOffsetDoNotMatter) {
  const ImageU8 rendered = AlignmentNoise(3, 3, 100);
  ImageU8 photograph = rendered;
  for (size_t i = 0; i < photograph.pixels.size(); ++i)
    photograph.pixels[i] = static_cast<uint8_t>((1 + i % 3 % 2) * rendered.pixels[i] + 10);
  EXPECT_LT(PsnrAgainst(photograph, kWhite, false, rendered), 20);
  EXPECT_GT(ColorAlignedPsnr(photograph, kWhite, false, rendered), 80);
}

TEST(ColorAlignmentTest, MaskedPixelsDoNotCount) {
  ImageU8 photograph = AlignmentNoise(4, 4);
  ImageU8 rendered{16, 16, 3, {}};
  for (size_t i = 0; i < 256; ++i) {
    const bool counts = i % 4 != 0;
    photograph.pixels[4 * i + 3] = counts ? 255 : 0;
    for (size_t c = 0; c < 3; ++c)
      rendered.pixels.push_back(counts ? photograph.pixels[4 * i + c] : 77);
  }
  EXPECT_GT(ColorAlignedPsnr(photograph, kWhite, true, rendered), 80);
  EXPECT_LT(ColorAlignedPsnr(photograph, kWhite, false, rendered), 40);
  for (size_t i = 0; i < 256; ++i) photograph.pixels[4 * i + 3] = 0;
  EXPECT_TRUE(std::isnan(ColorAlignedPsnr(photograph, kWhite, true, rendered)));
}

// Every multiple of a constant color is a solution.
TEST(ColorAlignmentTest, APictureOfOneColorBecomesTheMeanOfThePhotograph) {
  ImageU8 rendered = AlignmentNoise(3, 5), photograph = AlignmentNoise(3, 6);
  for (uint8_t& value : rendered.pixels) value = 0;
  double mean[3] = {}, squared = 0;
  for (size_t i = 0; i < photograph.pixels.size(); ++i) mean[i % 3] += photograph.pixels[i] / 256.0;
  for (size_t i = 0; i < photograph.pixels.size(); ++i)
    squared += std::pow((photograph.pixels[i] - mean[i % 3]) / 255, 2);
  const double expected = -10 * std::log10(squared / (3 * 256));
  EXPECT_NEAR(ColorAlignedPsnr(photograph, kWhite, false, rendered), expected, 1e-5);
  for (uint8_t& value : rendered.pixels) value = 255;
  EXPECT_NEAR(ColorAlignedPsnr(photograph, kWhite, false, rendered), expected, 1e-5);
}

}  // namespace
}  // namespace nerf
