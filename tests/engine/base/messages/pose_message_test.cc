#include "engine/base/messages/pose_message.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nerf {
namespace {

constexpr Vec3d kOfAMap = {500'000.25, 5'200'000.5, 300.125};

TEST(PoseMessageTest, PositionsOfAMapComeBackInDoubles) {
  PoseNumbers pose;
  for (const double number : {0.0, -1.0, 0.0, kOfAMap[0] + 1, 1.0, 0.0, 0.0, kOfAMap[1] + 2, 0.0,
                              0.0, 1.0, kOfAMap[2] + 3, 0.0, 0.0, 0.0, 1.0})
    pose.Add(number);
  const Mat34 read = ReadPose(pose, kOfAMap);
  EXPECT_EQ(read.m[0][1], -1);
  EXPECT_EQ(read.m[0][3], 1);
  EXPECT_EQ(read.m[1][3], 2);
  EXPECT_EQ(read.m[2][3], 3);
  PoseNumbers written;
  written.Add(7);
  WritePose(read, kOfAMap, &written);
  ASSERT_EQ(written.size(), 16);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(written[i], pose[i]) << i;
  EXPECT_EQ(PlaceOf(written), (Vec3d{kOfAMap[0] + 1, kOfAMap[1] + 2, kOfAMap[2] + 3}));
}

TEST(PoseMessageTest, WithoutAnOriginNumbersStayAsTheyAre) {
  Mat34 pose = {};
  pose.m[1][3] = -0.0f;
  PoseNumbers written;
  WritePose(pose, {0, 0, 0}, &written);
  EXPECT_TRUE(std::signbit(written[7]));
}

}  // namespace
}  // namespace nerf
