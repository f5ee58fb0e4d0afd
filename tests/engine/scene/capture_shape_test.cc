#include "engine/scene/capture_shape.h"

#include <cmath>
#include <numbers>

#include "gtest/gtest.h"
#include "tests/engine/scene/scene_fixture.h"
#include "tests/testing/paths.h"

namespace nerf {
namespace {

// n cameras from `begin` to `end` (in turns) on a circle of radius 4 around the z axis, a little
// above the center, that look at it or away from it.
SceneDescription Circle(int n, double begin, double end, bool outward = false) {
  SceneDescription description;
  description.geometry.box = {{-1.5f, -1.5f, -1.5f}, {1.5f, 1.5f, 1.5f}};
  for (int i = 0; i < n; ++i) {
    const double angle = 2 * std::numbers::pi * (begin + (end - begin) * i / n);
    const Vec3 position{static_cast<float>(4 * std::cos(angle)),
                        static_cast<float>(4 * std::sin(angle)), 1};
    const Vec3 backward = Normalized(position) * (outward ? -1.0f : 1.0f);
    const Vec3 right = Normalized(Cross({0, 0, 1}, backward));
    const Vec3 camera_up = Cross(backward, right);
    ViewDescription& view = description.train.emplace_back();
    for (int row = 0; row < 3; ++row) {
      view.camera.camera_to_world.m[row][0] = right[row];
      view.camera.camera_to_world.m[row][1] = camera_up[row];
      view.camera.camera_to_world.m[row][2] = backward[row];
      view.camera.camera_to_world.m[row][3] = position[row];
    }
  }
  return description;
}

TEST(CaptureShapeTest, CamerasAllAroundAnObjectSeeItFromAllSides) {
  EXPECT_TRUE(IsSeenFromAllSides(Circle(100, 0, 1)));
  EXPECT_TRUE(IsSeenFromAllSides(Circle(5, 0, 1)));
  EXPECT_TRUE(IsSeenFromAllSides(Circle(20, 0.3, 1.1))) << "a fifth of the circle is missing";
}

TEST(CaptureShapeTest, OneSideIsNotAllSides) {
  EXPECT_FALSE(IsSeenFromAllSides(Circle(50, 0, 0.5)));
  EXPECT_FALSE(IsSeenFromAllSides(Circle(50, -0.1, 0.1)));
  EXPECT_FALSE(IsSeenFromAllSides(Circle(1, 0, 1)));
  EXPECT_FALSE(IsSeenFromAllSides(Circle(0, 0, 1)));
}

TEST(CaptureShapeTest, ViewsFromWithinLookAway) {
  EXPECT_FALSE(IsSeenFromAllSides(Circle(100, 0, 1, /*outward=*/true)));
}

TEST(CaptureShapeTest, CamerasAboveTheCenterStandOnNoSide) {
  SceneDescription description = Circle(50, 0, 0.25);
  // Two poles of noise about the axis, opposite to the others.
  for (const float offset : {-0.01f, 0.01f}) {
    ViewDescription& view = description.train.emplace_back();
    view.camera.camera_to_world = {{{1, 0, 0, -0.01f}, {0, 1, 0, offset}, {0, 0, 1, 4}}};
  }
  EXPECT_FALSE(IsSeenFromAllSides(description));
}

TEST(CaptureShapeTest, SampleSceneIsAnObject) {
  EXPECT_TRUE(IsSeenFromAllSides(
      DescribeScene(SourceDir() + "/examples/mic", {.test_every = {}, .decode_images = false})));
}

TEST(CaptureShapeTest, RealCapturesAreWhatTheyAre) {
  const auto lego = TestData("lego_200"), fox = TestData("fox_quarter");
  if (!lego || !fox) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  EXPECT_TRUE(IsSeenFromAllSides(DescribeScene(*lego, {.test_every = {}, .decode_images = false})));
  EXPECT_FALSE(IsSeenFromAllSides(DescribeScene(*fox, {.test_every = {}, .decode_images = false})));
}

}  // namespace
}  // namespace nerf
