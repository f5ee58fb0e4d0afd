#include "engine/views/keyframe_views.h"

#include <gtest/gtest.h>

namespace nerf {
namespace {

ViewList TwoKeyframes() {
  ViewList list;
  list.are_keyframes = true;
  list.seconds = 2;
  for (const float x : {0.0f, 4.0f}) {
    Camera camera;
    camera.width = camera.height = 64;
    camera.fl_x = camera.fl_y = 32 + 8 * x;  // 90 degrees, then 53
    camera.camera_to_world.m[0][3] = x;
    list.views.push_back({camera, "", ""});
  }
  return list;
}

TEST(KeyframeViewsTest, PathLastsAsLongAsTheFileSays) {
  ViewList list = TwoKeyframes();
  ExpandKeyframes(0, 12, &list);
  ASSERT_EQ(list.views.size(), 24u);
  EXPECT_EQ(list.views.front().camera.camera_to_world.m[0][3], 0);
  EXPECT_NEAR(list.views.back().camera.camera_to_world.m[0][3], 4, 1e-5);
  EXPECT_EQ(list.views.back().camera.width, 64);
}

TEST(KeyframeViewsTest, FieldOfViewIsThatOfTheKeyframesAndBetweenThem) {
  ViewList list = TwoKeyframes();
  ExpandKeyframes(3, 12, &list);
  ASSERT_EQ(list.views.size(), 3u);
  EXPECT_NEAR(list.views[0].camera.fl_y, 32, 1e-3);
  EXPECT_GT(list.views[1].camera.fl_y, 40);
  EXPECT_LT(list.views[1].camera.fl_y, 56);
  EXPECT_NEAR(list.views[2].camera.fl_y, 64, 1e-3);
  for (const ListedCamera& view : list.views) EXPECT_EQ(view.camera.fl_x, view.camera.fl_y);
}

TEST(KeyframeViewsTest, NumberOfViewsCanBeGiven) {
  ViewList list = TwoKeyframes();
  ExpandKeyframes(5, 12, &list);
  EXPECT_EQ(list.views.size(), 5u);
  ExpandKeyframes(9, 12, &list);  // no keyframes any more
  EXPECT_EQ(list.views.size(), 5u);
}

TEST(KeyframeViewsTest, NumberOfViewsIsRefusedForCamerasThatAreListed) {
  ViewList list = TwoKeyframes();
  EXPECT_TRUE(CheckFrameCount(5, list).ok());
  list.are_keyframes = false;
  EXPECT_TRUE(CheckFrameCount(0, list).ok());
  const absl::Status refused = CheckFrameCount(5, list);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_NE(refused.message().find("lists 2 cameras"), absl::string_view::npos);
}

TEST(KeyframeViewsTest, EndlessPathsAreBounded) {
  ViewList list = TwoKeyframes();
  list.seconds = 1e6;
  ExpandKeyframes(0, 240, &list);
  EXPECT_EQ(list.views.size(), 100'000u);
}

}  // namespace
}  // namespace nerf
