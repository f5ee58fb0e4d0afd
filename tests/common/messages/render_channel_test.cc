#include "common/messages/render_channel.h"

#include <gtest/gtest.h>

namespace nerf {
namespace {

TEST(RenderChannelTest, EveryChannelHasItsWord) {
  EXPECT_EQ(ChannelWord(v1::RGB), "rgb");
  EXPECT_EQ(ChannelWord(v1::RGBA), "rgba");
  EXPECT_EQ(ChannelWord(v1::RGBAZ), "rgbaz");
  EXPECT_EQ(ChannelWord(v1::DEPTH), "depth");
  EXPECT_EQ(ChannelWord(v1::OPACITY), "opacity");
  EXPECT_EQ(ChannelWord(v1::RENDER_CHANNEL_UNSPECIFIED), "rgb");
}

}  // namespace
}  // namespace nerf
