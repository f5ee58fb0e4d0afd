#include "engine/views/render/render_device.h"

#include <utility>

#include "gtest/gtest.h"

namespace nerf {
namespace {

TEST(QuantizedTest, RoundsToNearestAndClamps) {
  RenderedView view;
  view.width = 2;
  view.height = 1;
  view.colors = {{0.5f, 1.4f, -0.2f}, {0.0019f, 0.0021f, 1.0f}};
  view.opacities = {0.5f, 1.2f};
  view.depths = {3, 0};
  const ViewPicture picture = Quantized(std::move(view));
  EXPECT_EQ(picture.rgba.n_channels, 4);
  EXPECT_EQ(picture.rgba.pixels, (std::vector<uint8_t>{128, 255, 0, 128, 0, 1, 255, 255}));
  EXPECT_EQ(picture.depths, (std::vector<float>{3, 0}));
  const ImageU8 colors = ColorsOf(picture);
  EXPECT_EQ(colors.width, 2);
  EXPECT_EQ(colors.n_channels, 3);
  EXPECT_EQ(colors.pixels, (std::vector<uint8_t>{128, 255, 0, 0, 1, 255}));
}

}  // namespace
}  // namespace nerf
