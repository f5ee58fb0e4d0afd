#include "engine/scene/pictures/image_resize.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

#include "engine/scene/cameras/view_list.h"
#include "engine/scene/pictures/draw_text.h"

namespace nerf {
namespace {

ImageU8 Picture(int width, int height, int n_channels, std::vector<uint8_t> pixels) {
  return {width, height, n_channels, std::move(pixels)};
}

TEST(AreaResizedTest, PixelsAreAveragedByArea) {
  const ImageU8 half = AreaResized(Picture(4, 2, 1, {0, 100, 10, 30, 20, 40, 50, 70}), 2, 1);
  EXPECT_EQ(half.pixels, (std::vector<uint8_t>{40, 40}));
  // Three become two: each takes one and a half.
  const ImageU8 two = AreaResized(Picture(3, 1, 1, {0, 90, 240}), 2, 1);
  EXPECT_EQ(two.pixels, (std::vector<uint8_t>{30, 190}));
}

TEST(AreaResizedTest, WhatCannotBeSeenDoesNotTintAnEdge) {
  // Opaque red beside transparent white: half opaque red, not pink.
  const ImageU8 edge = AreaResized(Picture(2, 1, 4, {200, 0, 0, 255, 255, 255, 255, 0}), 1, 1);
  EXPECT_EQ(edge.pixels, (std::vector<uint8_t>{200, 0, 0, 128}));
  const ImageU8 nothing = AreaResized(Picture(2, 1, 4, {9, 9, 9, 0, 7, 7, 7, 0}), 1, 1);
  EXPECT_EQ(nothing.pixels[3], 0);
}

TEST(AreaResizedTest, GrowingRepeatsPixelsAndTheSameSizeIsACopy) {
  const ImageU8 image = Picture(2, 1, 1, {10, 20});
  EXPECT_EQ(AreaResized(image, 4, 2).pixels,
            (std::vector<uint8_t>{10, 10, 20, 20, 10, 10, 20, 20}));
  EXPECT_EQ(AreaResized(image, 2, 1).pixels, image.pixels);
}

TEST(AreaResizedTest, OddSizesKeepTheMean) {
  std::vector<uint8_t> pixels;
  double mean = 0;
  for (int i = 0; i < 97 * 61; ++i) {
    pixels.push_back(static_cast<uint8_t>(i * 37 % 251));
    mean += pixels.back() / (97.0 * 61);
  }
  const ImageU8 small = AreaResized(Picture(97, 61, 1, pixels), 10, 7);
  double small_mean = 0;
  for (const uint8_t p : small.pixels) small_mean += p / 70.0;
  EXPECT_NEAR(small_mean, mean, 0.5);
}

TEST(FitTest, SizesKeepTheirShapeAndNeverGrow) {
  const auto pair = [](ReducedSize size) { return std::pair(size.width, size.height); };
  EXPECT_EQ(pair(FitSide(4000, 3000, 1000)), std::pair(1000, 750));
  EXPECT_EQ(pair(FitSide(300, 400, 1000)), std::pair(300, 400));
  EXPECT_EQ(pair(FitSide(4000, 3000, 0)), std::pair(4000, 3000));
  EXPECT_EQ(pair(FitSide(16384, 1, 100)), std::pair(100, 1));
  EXPECT_EQ(pair(FitPixels(4000, 3000, 1 << 20)), std::pair(1182, 886));
  EXPECT_EQ(pair(FitPixels(800, 800, 1 << 20)), std::pair(800, 800));
}

TEST(DrawTextTest, TextBeyondThePictureIsCutOff) {
  ImageU8 image = Picture(8, 8, 3, std::vector<uint8_t>(8 * 8 * 3));
  DrawText("12.5 dB%-", -3, -2, 3, {255, 255, 255}, &image);
  DrawText("8", 100, 100, 1, {255, 255, 255}, &image);
  DrawText("1", 0, 3, 1, {255, 0, 0}, &image);
  EXPECT_EQ(image.Pixel(1, 3)[0], 255);
  EXPECT_EQ(TextWidth("28.41", 2), 5 * 8 - 2);
  EXPECT_EQ(TextWidth("", 2), 0);
}

TEST(DrawTextTest, LettersOfFileNamesDifferFromEachOther) {
  std::set<std::vector<uint8_t>> glyphs;
  const std::string_view all = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_%()+?d";
  for (const char c : all) {
    ImageU8 image = Picture(3, 5, 3, std::vector<uint8_t>(3 * 5 * 3));
    DrawText({&c, 1}, 0, 0, 1, {255, 255, 255}, &image);
    EXPECT_TRUE(glyphs.insert(image.pixels).second) << c;
  }
}

TEST(ViewNamesTest, StemsNameViewsAndEqualOnesTakeTheirFolders) {
  EXPECT_EQ(ViewNames({"images/0001.jpg", "images/a b.png"}),
            (std::vector<std::string>{"0001", "a_b"}));
  EXPECT_EQ(ViewNames({"left/1.jpg", "right/1.jpg", "left_1.png"}),
            (std::vector<std::string>{"left_1", "right_1", "left_1_2"}));
}

}  // namespace
}  // namespace nerf
