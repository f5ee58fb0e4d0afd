#include "engine/scene/exposure_spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/base/vec3.h"

namespace nerf {
namespace {

// Pictures of 8x6 pixels from places 0.1 apart that look the same way, of these colors (0 to 1).
std::vector<View> PicturesOf(const std::vector<Vec3>& colors, int n_channels = 3) {
  std::vector<View> views(colors.size());
  for (size_t i = 0; i < views.size(); ++i) {
    Camera& camera = views[i].camera;
    camera.width = 8;
    camera.height = 6;
    const float x = 0.1f * static_cast<float>(i);
    camera.camera_to_world = {{{1, 0, 0, x}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
    ImageU8& image = views[i].image;
    image = {8, 6, n_channels, {}};
    for (int pixel = 0; pixel < 8 * 6; ++pixel) {
      for (int c = 0; c < 3; ++c)
        image.pixels.push_back(static_cast<uint8_t>(std::lround(255 * colors[i][c])));
      if (n_channels == 4) image.pixels.push_back(255);
    }
  }
  return views;
}

ExposureSpread SpreadOf(const std::vector<View>& views) {
  return SpreadOfExposures(
      views, [&](size_t i) { return std::span<const uint8_t>(views[i].image.pixels); });
}

TEST(ExposureSpreadTest, EqualPicturesHaveNone) {
  const ExposureSpread spread = SpreadOf(PicturesOf(std::vector<Vec3>(6, {0.4f, 0.5f, 0.6f})));
  EXPECT_EQ(spread.neighbors.brightness, 0);
  EXPECT_EQ(spread.neighbors.tint, 0);
  EXPECT_FALSE(ExposuresDiffer(spread));
}

TEST(ExposureSpreadTest, IsTheLogarithmOfBrightnessBesideNeighbors) {
  std::vector<Vec3> colors;
  for (int i = 0; i < 8; ++i)
    colors.push_back(Vec3{0.6f, 0.6f, 0.6f} * (i / 2 % 2 == 0 ? 1 : 0.5f));
  const ExposureSpread spread = SpreadOf(PicturesOf(colors));
  EXPECT_NEAR(spread.neighbors.brightness, std::log(0.61 / 0.31), 0.01);
  EXPECT_NEAR(spread.neighbors.tint, 0, 0.01);
  EXPECT_TRUE(ExposuresDiffer(spread));
}

TEST(ExposureSpreadTest, TintsOfEqualBrightnessAreSeen) {
  std::vector<Vec3> colors;
  for (int i = 0; i < 8; ++i)
    colors.push_back(i % 2 == 0 ? Vec3{0.6f, 0.5f, 0.5f} : Vec3{0.5f, 0.5f, 0.6f});
  const ExposureSpread spread = SpreadOf(PicturesOf(colors));
  EXPECT_LT(spread.neighbors.brightness, 0.02);
  EXPECT_GT(spread.neighbors.tint, 0.05);
  EXPECT_TRUE(ExposuresDiffer(spread));
}

// One photograph of another exposure does not change the median.
TEST(ExposureSpreadTest, OneOddPictureOfManyIsNoReason) {
  std::vector<Vec3> colors(12, {0.6f, 0.6f, 0.6f});
  colors[5] = {0.2f, 0.2f, 0.2f};
  EXPECT_FALSE(ExposuresDiffer(SpreadOf(PicturesOf(colors))));
}

// A few photographs around an object in light from one side.
TEST(ExposureSpreadTest, WhatDiffersMoreWithTheDistanceIsTheObject) {
  std::vector<Vec3> colors;
  for (int i = 0; i < 12; ++i) {
    const float light = 0.5f + 0.2f * std::sin(static_cast<float>(i) / 2);
    colors.push_back({light, light, light});
  }
  const ExposureSpread spread = SpreadOf(PicturesOf(colors));
  EXPECT_GT(spread.neighbors.brightness, 0.1);
  EXPECT_GT(spread.any.brightness, 0.3);
  EXPECT_FALSE(ExposuresDiffer(spread));
}

// Cameras on a circle that look outward, of two brightnesses in turn.
TEST(ExposureSpreadTest, NeighborsLookTheSameWayWithin20Degrees) {
  const auto spread_of = [](int n, double degrees) {
    std::vector<Vec3> colors;
    for (int i = 0; i < n; ++i) colors.push_back(Vec3{0.6f, 0.6f, 0.6f} * (i % 2 == 0 ? 1 : 0.5f));
    std::vector<View> views = PicturesOf(colors);
    for (int i = 0; i < n; ++i) {
      const double angle = i * degrees * std::acos(-1) / 180;
      const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
      views[i].camera.camera_to_world = {{{c, 0, s, s}, {0, 1, 0, 0}, {-s, 0, c, c}}};
    }
    return SpreadOf(views);
  };
  EXPECT_TRUE(ExposuresDiffer(spread_of(24, 15)));
  EXPECT_EQ(spread_of(12, 30).neighbors.brightness, 0);
}

TEST(ExposureSpreadTest, FewNeighborsTellNothing) {
  std::vector<View> views = PicturesOf({{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}});
  EXPECT_GT(SpreadOf(views).neighbors.brightness, 1);
  views[2].camera.camera_to_world = {{{-1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, -1, 0}}};
  views[3].camera.camera_to_world = {{{0, 0, 1, 0}, {0, 1, 0, 0}, {-1, 0, 0, 0}}};
  views[4].camera.camera_to_world = {{{0, 0, -1, 0}, {0, 1, 0, 0}, {1, 0, 0, 0}}};
  EXPECT_EQ(SpreadOf(views).neighbors.brightness, 0);
}

TEST(ExposureSpreadTest, WhatIsTransparentDoesNotCount) {
  std::vector<View> views = PicturesOf(std::vector<Vec3>(6, {0.4f, 0.4f, 0.4f}), 4);
  for (size_t i = 0; i < views.size(); i += 2) {
    std::vector<uint8_t>& pixels = views[i].image.pixels;
    for (size_t at = 0; at < pixels.size() / 2; at += 4)
      pixels[at] = pixels[at + 1] = pixels[at + 2] = 255, pixels[at + 3] = 0;
  }
  EXPECT_NEAR(SpreadOf(views).neighbors.brightness, 0, 1e-9);
  for (View& view : views) {
    for (size_t at = 3; at < view.image.pixels.size(); at += 4) view.image.pixels[at] = 0;
  }
  EXPECT_FALSE(ExposuresDiffer(SpreadOf(views))) << "nothing to see";
}

TEST(ExposureSpreadTest, ViewsThatLookOtherWaysAreNotCompared) {
  std::vector<View> views = PicturesOf({{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}});
  for (size_t i = 0; i < views.size(); i += 2)
    views[i].camera.camera_to_world = {{{-1, 0, 0, 0.1f}, {0, 1, 0, 0}, {0, 0, -1, 0}}};
  EXPECT_EQ(SpreadOf(views).neighbors.brightness, 0);
  EXPECT_EQ(SpreadOf(PicturesOf({{1, 1, 1}, {0, 0, 0}, {1, 1, 1}})).neighbors.brightness, 0)
      << "too few";
}

}  // namespace
}  // namespace nerf
