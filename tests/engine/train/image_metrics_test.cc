#include "engine/views/measure/image_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace nerf {
namespace {

ImageU8 MetricsNoise(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  ImageU8 image{width, height, 3, {}};
  for (int i = 0; i < width * height * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(random() % 256));
  }
  return image;
}

// A smooth picture and the same with noise: SSIM well between 0 and 1.
ImageU8 Waves(int width, int height, double noise) {
  std::mt19937 random(5);
  ImageU8 image{width, height, 3, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const double value = 128 + 90 * std::sin(0.3 * x + c) * std::cos(0.2 * y) +
                             noise * (static_cast<double>(random() % 2001) / 1000 - 1);
        image.pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  return image;
}

// The definition, window by window, with images in [0, 1].
double ReferenceSsim(const ImageU8& a, const ImageU8& b) {
  double weights[11][11], sum = 0;
  for (int i = 0; i < 11; ++i) {
    for (int j = 0; j < 11; ++j) {
      weights[i][j] = std::exp(-((i - 5) * (i - 5) + (j - 5) * (j - 5)) / (2 * 1.5 * 1.5));
      sum += weights[i][j];
    }
  }
  double total = 0;
  int n = 0;
  for (int c = 0; c < 3; ++c) {
    for (int y = 5; y + 5 < a.height; ++y) {
      for (int x = 5; x + 5 < a.width; ++x) {
        double mean_a = 0, mean_b = 0;
        for (int i = 0; i < 11; ++i) {
          for (int j = 0; j < 11; ++j) {
            mean_a += weights[i][j] / sum * a.Pixel(x + j - 5, y + i - 5)[c] / 255;
            mean_b += weights[i][j] / sum * b.Pixel(x + j - 5, y + i - 5)[c] / 255;
          }
        }
        double variance_a = 0, variance_b = 0, covariance = 0;
        for (int i = 0; i < 11; ++i) {
          for (int j = 0; j < 11; ++j) {
            const double da = a.Pixel(x + j - 5, y + i - 5)[c] / 255.0 - mean_a;
            const double db = b.Pixel(x + j - 5, y + i - 5)[c] / 255.0 - mean_b;
            variance_a += weights[i][j] / sum * da * da;
            variance_b += weights[i][j] / sum * db * db;
            covariance += weights[i][j] / sum * da * db;
          }
        }
        const double c1 = 0.01 * 0.01, c2 = 0.03 * 0.03;
        total += (2 * mean_a * mean_b + c1) * (2 * covariance + c2) /
                 ((mean_a * mean_a + mean_b * mean_b + c1) * (variance_a + variance_b + c2));
        ++n;
      }
    }
  }
  return total / n;
}

TEST(PsnrTest, KnownErrorGivesKnownDecibels) {
  ImageU8 a{2, 2, 3, std::vector<uint8_t>(12, 100)}, b = a;
  for (uint8_t& value : b.pixels) value = 110;
  EXPECT_NEAR(Psnr(a, b), 20 * std::log10(255.0 / 10), 1e-9);
  b = a;
  b.pixels[5] = 0;  // one of twelve values is off by 100
  EXPECT_NEAR(Psnr(a, b), -10 * std::log10(100.0 * 100 / 12 / 255 / 255), 1e-9);
}

TEST(PsnrTest, EqualImagesGiveTheMaximum) {
  const ImageU8 a = MetricsNoise(4, 4, 1);
  EXPECT_EQ(Psnr(a, a), kMaxPsnr);
  EXPECT_EQ(PsnrFromSquaredError(0), kMaxPsnr);
  EXPECT_NEAR(PsnrFromSquaredError(0.001), 30, 1e-9);
}

TEST(SsimTest, AgreesWithTheDefinition) {
  ThreadPool pool(2);
  const struct {
    ImageU8 a, b;
  } cases[] = {{MetricsNoise(16, 13, 1), MetricsNoise(16, 13, 2)},
               {Waves(31, 24, 0), Waves(31, 24, 40)},
               {Waves(11, 11, 0), Waves(11, 11, 10)},
               {Waves(40, 11, 0), MetricsNoise(40, 11, 3)}};
  for (const auto& [a, b] : cases) {
    EXPECT_NEAR(Ssim(a, b, &pool), ReferenceSsim(a, b), 1e-9);
  }
  const double middling = Ssim(Waves(31, 24, 0), Waves(31, 24, 40), &pool);
  EXPECT_GT(middling, 0.3);
  EXPECT_LT(middling, 0.95);
}

TEST(SsimTest, EqualImagesGiveOneAndSmallOnesNothing) {
  ThreadPool pool(1);
  EXPECT_NEAR(Ssim(MetricsNoise(20, 20, 1), MetricsNoise(20, 20, 1), &pool), 1, 1e-12);
  EXPECT_TRUE(std::isnan(Ssim(MetricsNoise(10, 20, 1), MetricsNoise(10, 20, 1), &pool)));
}

TEST(CompositedOnTest, BlendsStraightAlphaAndRounds) {
  const ImageU8 image{2, 1, 4, {200, 100, 0, 128, 10, 20, 30, 0}};
  // 200 * 128 / 255 + 255 * 127 / 255 = 227.39
  EXPECT_EQ(CompositedOn(image, {1, 1, 1}).pixels,
            (std::vector<uint8_t>{227, 177, 127, 255, 255, 255}));
  EXPECT_EQ(CompositedOn(image, {0, 0, 0}).pixels, (std::vector<uint8_t>{100, 50, 0, 0, 0, 0}));
}

TEST(PsnrAgainstTest, MaskedPixelsDoNotCount) {
  const ImageU8 photograph{2, 1, 4, {100, 100, 100, 255, 0, 0, 0, 127}};
  const ImageU8 rendered{2, 1, 3, {110, 90, 100, 255, 255, 255}};
  const double expected = PsnrFromSquaredError(2 * 100.0 / (3 * 255 * 255));
  EXPECT_NEAR(PsnrAgainst(photograph, {}, true, rendered), expected, 1e-9);
  EXPECT_LT(PsnrAgainst(photograph, {}, false, rendered), 10) << "alpha as opacity";
  EXPECT_EQ(WithMaskedPixels(rendered, photograph).pixels,
            (std::vector<uint8_t>{110, 90, 100, 0, 0, 0}));
  EXPECT_EQ(WithoutAlpha(photograph).pixels, (std::vector<uint8_t>{100, 100, 100, 0, 0, 0}));
  const ImageU8 hidden{1, 1, 4, {1, 2, 3, 0}};
  EXPECT_TRUE(std::isnan(PsnrAgainst(hidden, {}, true, {1, 1, 3, {0, 0, 0}})));
}

TEST(CompositedOnTest, OpaqueImagesAreCopied) {
  const ImageU8 image = MetricsNoise(3, 2, 9);
  EXPECT_EQ(CompositedOn(image, {1, 1, 1}).pixels, image.pixels);
}

}  // namespace
}  // namespace nerf
