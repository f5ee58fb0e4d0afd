#include "engine/views/path/capture_geometry.h"

#include <gtest/gtest.h>

#include "tests/engine/views/path/captures.h"

namespace nerf {
namespace {

constexpr Vec3 kUp{0, 0, 1};

TEST(SeesTest, PointsInsideThePictureAreSeen) {
  CaptureCamera camera = CameraAt({0, -4, 0}, {0, 0, 0});
  camera.left = -0.5f, camera.right = 0.25f, camera.bottom = -0.1f, camera.top = 0.2f;
  EXPECT_TRUE(Sees(camera, {0, 0, 0}));
  EXPECT_TRUE(Sees(camera, {-1.9f, 0, 0}));
  EXPECT_FALSE(Sees(camera, {1.1f, 0, 0}));
  EXPECT_TRUE(Sees(camera, {0, 0, 0.7f}));
  EXPECT_FALSE(Sees(camera, {0, 0, -0.5f}));
  EXPECT_FALSE(Sees(camera, {0, -5, 0})) << "behind it";
  EXPECT_FALSE(Sees(camera, camera.position()));
}

TEST(FocusOfTest, LinesOfSightMeetThere) {
  const auto focus = FocusOf(Ring(10, 0, 0.3));
  ASSERT_TRUE(focus.has_value());
  EXPECT_NEAR(Norm(*focus), 0, 1e-4);
}

TEST(FocusOfTest, ParallelOrOutwardLinesHaveNone) {
  EXPECT_FALSE(FocusOf(Flight(3, 4)).has_value());
  EXPECT_FALSE(FocusOf(Ring(10, 0, 1, 4, 1, /*outward=*/true)).has_value());
  EXPECT_FALSE(FocusOf({}).has_value());
}

TEST(UpOfTest, FileUpWinsWhereTheCamerasAgree) {
  const auto ring = Ring(10, 0, 1, 4, 3);
  EXPECT_EQ(UpOf(ring, kUp, std::nullopt), kUp);
  // A file whose +Z lies across what all cameras hold up says nothing.
  EXPECT_NEAR(Dot(UpOf(ring, Vec3{1, 0, 0}, std::nullopt), kUp), 1, 1e-4);
}

TEST(UpOfTest, CamerasThatLookDownHaveTheFilesUp) {
  EXPECT_EQ(UpOf(Flight(3, 4), kUp, std::nullopt), kUp);
}

TEST(UpOfTest, GroundIsBelowCamerasThatLookAtIt) {
  EXPECT_NEAR(Dot(UpOf(Flight(3, 4), std::nullopt, Vec3{0.05f, 0, -0.99f}), kUp), 0.99, 1e-4);
  EXPECT_NEAR(UpOf(Flight(3, 4), std::nullopt, std::nullopt).y, 1, 1e-4)
      << "without ground: the top of the pictures";
  // A wall beside cameras that look elsewhere is no ground.
  EXPECT_NEAR(Dot(UpOf(Ring(10, 0, 1), std::nullopt, Vec3{1, 0, 0}), kUp), 1, 1e-4);
}

TEST(UpOfTest, NoCamerasHaveZ) { EXPECT_EQ(UpOf({}, std::nullopt, std::nullopt), kUp); }

TEST(PlaneNormalOfTest, FlatPointsHaveANormal) {
  std::vector<Vec3> points;
  for (int i = 0; i < 100; ++i) {
    points.push_back(
        {static_cast<float>(i % 10), 0.1f * static_cast<float>(i % 3), static_cast<float>(i / 10)});
  }
  const auto normal = PlaneNormalOf(points);
  ASSERT_TRUE(normal.has_value());
  EXPECT_NEAR(std::abs(normal->y), 1, 0.01);
  for (Vec3& point : points) point.y *= 100;
  EXPECT_FALSE(PlaneNormalOf(points).has_value());
  EXPECT_FALSE(PlaneNormalOf({}).has_value());
}

TEST(GoAroundTest, RingsGoAroundAndArcsDoNot) {
  EXPECT_TRUE(GoAround(Ring(50, 0, 1), {0, 0, 0}, kUp));
  EXPECT_TRUE(GoAround(Ring(20, 0.3, 1.1), {0, 0, 0}, kUp)) << "a fifth is missing";
  EXPECT_FALSE(GoAround(Ring(50, 0, 0.5), {0, 0, 0}, kUp));
  EXPECT_FALSE(GoAround(Ring(50, 0, 1, 4, 1, true), {0, 0, 0}, kUp));
  EXPECT_FALSE(GoAround({}, {0, 0, 0}, kUp));
}

}  // namespace
}  // namespace nerf
