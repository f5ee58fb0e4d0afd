#include "tests/bench/line_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/bench/pixel_font.h"

namespace nerf {
namespace {

using testing::ElementsAre;

constexpr std::array<uint8_t, 3> kFirstColor = {0, 90, 170};

// Rows of the topmost and lowest pixel of a color in each column that has any.
std::map<int, std::pair<int, int>> Columns(const ImageU8& image, std::array<uint8_t, 3> color) {
  std::map<int, std::pair<int, int>> columns;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const uint8_t* pixel = image.Pixel(x, y);
      if (!std::equal(color.begin(), color.end(), pixel)) continue;
      columns.try_emplace(x, y, y).first->second.second = y;
    }
  }
  return columns;
}

TEST(LinePlotTest, PointsLieOnALogarithmicAndALinearAxis) {
  const ImageU8 image =
      DrawLinePlot({"title", "seconds", "dB"}, {{"", {1, 10, 100}, {20, 22, 30}}});
  ASSERT_EQ(image.width, 960);
  ASSERT_EQ(image.pixels.size(), size_t{960} * 600 * 3);
  const auto columns = Columns(image, kFirstColor);
  ASSERT_GT(columns.size(), 200u);
  const int left = columns.begin()->first, right = columns.rbegin()->first;
  const auto middle = [&](int x) { return (columns.at(x).first + columns.at(x).second) / 2.0; };
  // The markers reach 5 pixels beyond the first and the last point.
  const double y_first = middle(left + 1), y_last = middle(right - 1);
  EXPECT_LT(y_last, y_first);
  // x = 10 is halfway between 1 and 100; y = 22 a fifth of the way from 20 to 30.
  EXPECT_NEAR(middle((left + right) / 2), y_first + 0.2 * (y_last - y_first), 2);
}

TEST(LinePlotTest, ValuesThatAreNotFiniteAreLeftOut) {
  const ImageU8 with = DrawLinePlot({"", "", ""}, {{"", {1, 3, 10}, {20, std::nan(""), 30}}});
  const ImageU8 without = DrawLinePlot({"", "", ""}, {{"", {1, 10}, {20, 30}}});
  EXPECT_EQ(with.pixels, without.pixels);
}

TEST(LinePlotTest, NothingAndASinglePointAreDrawn) {
  EXPECT_TRUE(Columns(DrawLinePlot({"", "", ""}, {}), kFirstColor).empty());
  EXPECT_FALSE(Columns(DrawLinePlot({"", "", ""}, {{"", {5}, {20}}}), kFirstColor).empty());
}

TEST(LinePlotTest, TicksAreRoundAndEncloseTheValues) {
  EXPECT_THAT(RoundTicks(20.3, 29.9, 9), ElementsAre(20, 22, 24, 26, 28, 30));
  EXPECT_THAT(RoundTicks(0, 1, 4), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(RoundTicks(30, 30, 9).size(), testing::Ge(2u));
  const std::vector<double> ticks = RoundTicks(-3.7, 412, 9);
  EXPECT_LE(ticks.front(), -3.7);
  EXPECT_GE(ticks.back(), 412);
  EXPECT_LE(ticks.size(), 9u);
}

TEST(PixelFontTest, EveryCharacterOfLabelsHasAGlyphOfItsOwn) {
  std::map<std::array<uint8_t, kGlyphHeight>, char> seen;
  for (const char c : std::string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:-_/=+^%()")) {
    const auto [other, is_new] = seen.try_emplace(Glyph(c), c);
    EXPECT_TRUE(is_new) << c << " looks like " << other->second;
  }
  EXPECT_FALSE(seen.contains({}));
  EXPECT_EQ(Glyph('q'), Glyph('Q'));
  EXPECT_EQ(Glyph(' '), (std::array<uint8_t, kGlyphHeight>{}));
}

}  // namespace
}  // namespace nerf
