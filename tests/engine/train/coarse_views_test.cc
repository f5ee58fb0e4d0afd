#include "engine/train/batch/coarse_views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace nerf {
namespace {

View RandomView(int width, int height, int n_channels, uint32_t seed) {
  std::mt19937 random(seed);
  View view;
  view.camera.width = view.image.width = width;
  view.camera.height = view.image.height = height;
  view.camera.fl_x = view.camera.fl_y = 1.5f * static_cast<float>(width);
  view.camera.cx = 0.4f * static_cast<float>(width);
  view.camera.cy = 0.6f * static_cast<float>(height);
  view.image.n_channels = n_channels;
  view.image.pixels.resize(size_t{1} * width * height * n_channels);
  for (uint8_t& byte : view.image.pixels) byte = static_cast<uint8_t>(random());
  // Some pixels that cannot be seen, with a color all the same.
  for (size_t i = 3; n_channels == 4 && i < view.image.pixels.size(); i += 8)
    view.image.pixels[i] = 0;
  return view;
}

double Overlap(double a, double b, double c, double d) {
  return std::max(0.0, std::min(b, d) - std::max(a, c));
}

// The mean of a channel over the area of pixel (x, y) of a reduced picture, by adding up every
// pixel of the full one; colors are weighted by opacity.
double AreaMean(const ImageU8& full, ReducedSize size, int x, int y, int channel) {
  const double step_x = static_cast<double>(full.width) / size.width;
  const double step_y = static_cast<double>(full.height) / size.height;
  double sum = 0, weights = 0;
  for (int row = 0; row < full.height; ++row) {
    for (int column = 0; column < full.width; ++column) {
      const double area = Overlap(x * step_x, (x + 1) * step_x, column, column + 1) *
                          Overlap(y * step_y, (y + 1) * step_y, row, row + 1);
      const uint8_t* const pixel = full.Pixel(column, row);
      const double weight = full.n_channels == 4 && channel < 3 ? area * pixel[3] / 255.0 : area;
      sum += weight * pixel[channel];
      weights += weight;
    }
  }
  return weights > 0 ? sum / weights : 0;
}

TEST(CoarseViewsTest, SidesAreHalvedRoundedAndNeverEmpty) {
  const auto size = [](int level, int width, int height) {
    const ReducedSize s = PictureSizeAt(level, width, height);
    return std::pair(s.width, s.height);
  };
  EXPECT_EQ(size(0, 401, 3), std::pair(401, 3));
  EXPECT_EQ(size(1, 400, 300), std::pair(200, 150));
  EXPECT_EQ(size(2, 400, 300), std::pair(100, 75));
  EXPECT_EQ(size(1, 401, 3), std::pair(201, 2));
  EXPECT_EQ(size(2, 401, 3), std::pair(100, 1));
  EXPECT_EQ(size(2, 1, 1), std::pair(1, 1));
  EXPECT_EQ(size(2, 16384, 2), std::pair(4096, 1));
}

TEST(CoarseViewsTest, PixelsAreMeansOverTheirAreas) {
  ThreadPool pool(2);
  for (const int n_channels : {1, 3, 4}) {
    const std::vector<View> views = {RandomView(16, 8, n_channels, 1),
                                     RandomView(13, 7, n_channels, 2),
                                     RandomView(1, 5, n_channels, 3)};
    for (const int level : {1, 2}) {
      const std::vector<View> reduced = ReducedViews(views, nullptr, level, &pool);
      ASSERT_EQ(reduced.size(), views.size());
      for (size_t v = 0; v < views.size(); ++v) {
        const ImageU8& full = views[v].image;
        const ImageU8& image = reduced[v].image;
        const ReducedSize size = PictureSizeAt(level, full.width, full.height);
        ASSERT_EQ(image.width, size.width);
        ASSERT_EQ(image.height, size.height);
        ASSERT_EQ(image.n_channels, n_channels);
        for (int y = 0; y < size.height; ++y) {
          for (int x = 0; x < size.width; ++x) {
            for (int c = 0; c < n_channels; ++c)
              EXPECT_NEAR(image.Pixel(x, y)[c], AreaMean(full, size, x, y, c), 0.501);
          }
        }
      }
    }
  }
}

TEST(CoarseViewsTest, CamerasMatchTheirPictures) {
  ThreadPool pool(1);
  const std::vector<View> views = {RandomView(26, 15, 3, 1)};
  const View reduced = ReducedViews(views, nullptr, 2, &pool)[0];
  EXPECT_EQ(reduced.camera, Resized(views[0].camera, 7, 4));
  // The middle of the picture has the same ray.
  const Ray full = CameraRay(views[0].camera, 13, 7.5f),
            coarse = CameraRay(reduced.camera, 3.5f, 2);
  EXPECT_LT(Norm(full.direction - coarse.direction), 1e-6f);
}

TEST(CoarseViewsTest, TheNumberOfThreadsChangesNothing) {
  std::vector<View> views;
  for (int i = 0; i < 9; ++i) views.push_back(RandomView(20 + i, 30 - i, 4, i));
  ThreadPool one(1), three(3);
  const std::vector<View> a = ReducedViews(views, nullptr, 1, &one);
  const std::vector<View> b = ReducedViews(views, nullptr, 1, &three);
  for (size_t i = 0; i < views.size(); ++i) EXPECT_EQ(a[i].image.pixels, b[i].image.pixels);
}

}  // namespace
}  // namespace nerf
