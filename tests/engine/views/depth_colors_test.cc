#include "engine/views/depth_colors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace nerf {
namespace {

TEST(DepthColorsTest, NearIsRedFarIsBlueNothingIsBlack) {
  DepthRange range;
  std::vector<float> depths(1000);
  for (size_t i = 0; i < depths.size(); ++i) depths[i] = static_cast<float>(i);
  depths[999] = 1e9f;
  range.Add(depths);
  const auto bounds = range.Bounds();
  EXPECT_LT(bounds[1], 1000) << "one far point does not stretch the colors";
  const ImageU8 image = DepthInColor(3, 1, {1, 990, 0}, bounds);
  EXPECT_GT(image.Pixel(0, 0)[0], image.Pixel(0, 0)[2]);
  EXPECT_GT(image.Pixel(1, 0)[2], image.Pixel(1, 0)[0]);
  EXPECT_EQ(image.Pixel(2, 0)[0] + image.Pixel(2, 0)[1] + image.Pixel(2, 0)[2], 0);
  EXPECT_EQ(DepthRange().Bounds()[1], 1);
  TurboColor(NAN);
  TurboColor(-5);
}

}  // namespace
}  // namespace nerf
