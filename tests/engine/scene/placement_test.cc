#include "engine/scene/placement.h"

#include <cmath>
#include <numbers>

#include "gtest/gtest.h"
#include "tests/engine/scene/looking_at.h"

namespace nerf {
namespace {

ListedView ViewLookingAt(const Vec3d& position, const Vec3d& target) {
  ListedView view;
  view.pose = LookingAt(position, target);
  return view;
}

// Twelve cameras on a circle of radius 8 about (10, 20, 3), which they look at from above.
ListedViews Ring() {
  ListedViews listed;
  listed.flavor = SceneFlavor::kNerfstudio;
  const Vec3d center{10, 20, 3};
  for (int i = 0; i < 12; ++i) {
    const double angle = i * std::numbers::pi / 6;
    listed.views.push_back(ViewLookingAt(
        {center[0] + 8 * std::cos(angle), center[1] + 8 * std::sin(angle), center[2] + 6}, center));
  }
  return listed;
}

Placement UpAxis(int axis) {
  Placement wanted;
  wanted.up_axis = axis;
  return wanted;
}

void ExpectPoint(const Vec3d& point, const Vec3d& expected) {
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(point[i], expected[i], 1e-6) << i;
}

TEST(PlacementTest, CamerasThatLookAtOneThingPutItInTheMiddle) {
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  const Similarity placement = PlaceScene(Ring(), {}, &geometry, &warnings);
  ExpectPoint(placement.ApplyToPoint({10, 20, 3}), {0, 0, 0});
  // The cameras are 10 from it.
  EXPECT_NEAR(placement.scale, 1 / (0.375 * 10), 1e-6);
  EXPECT_NEAR(placement.ApplyToPoint({10, 20, 4})[2], placement.scale, 1e-6) << "up is kept";
  EXPECT_EQ(geometry.n_levels, 4);
  EXPECT_TRUE(warnings.empty());
}

TEST(PlacementTest, CamerasThatLookApartArePlacedByWhereTheyStand) {
  ListedViews listed = Ring();
  for (ListedView& view : listed.views) {
    const Vec3d at{view.pose.m[0][3], view.pose.m[1][3], view.pose.m[2][3]};
    view = ViewLookingAt(at, {2 * at[0] - 10, 2 * at[1] - 20, at[2]});
  }
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  const Similarity placement = PlaceScene(listed, {}, &geometry, &warnings);
  ExpectPoint(placement.ApplyToPoint({10, 20, 9}), {0, 0, 0});
  EXPECT_NEAR(placement.scale, 1.0 / 8, 1e-6);
}

TEST(PlacementTest, PointsComeFirstAndCountByThePicturesThatShowThem) {
  ListedViews listed = Ring();
  // 101 points on a line of 2 along x about (1, 2, 3), seen by five; as many far off, seen by one.
  for (int i = 0; i <= 100; ++i) {
    listed.points.push_back({{0.02 * i, 2, 3}, 5, {}});
    listed.points.push_back({{500, 600, 700}, 1, {}});
  }
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  const Similarity placement = PlaceScene(listed, {}, &geometry, &warnings);
  const Vec3d center = placement.ApplyToPoint({1.2, 2, 3});  // 606 observations: the 303rd
  ExpectPoint(center, {0, 0, 0});
  EXPECT_NEAR(1 / placement.scale, 1.5 * 0.6, 0.05);
  listed.points.resize(20);
  EXPECT_NEAR(PlaceScene(listed, {}, &geometry, &warnings).scale, 1 / 3.75, 1e-6)
      << "too few points say nothing";
}

TEST(PlacementTest, PointsThatNameNoPictureCountOnceEach) {
  ListedViews listed = Ring();
  for (int i = 0; i <= 100; ++i) listed.points.push_back({{0.02 * i, 2, 3}, 0, {}});
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  const Similarity placement = PlaceScene(listed, {}, &geometry, &warnings);
  ExpectPoint(placement.ApplyToPoint({1, 2, 3}), {0, 0, 0});
  EXPECT_NEAR(1 / placement.scale, 1.5 * 0.5, 0.05);
}

TEST(PlacementTest, TheUsersBoxBoxesAndUpWin) {
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  Placement wanted;
  wanted.box = OwnCube{{11, 19, 3}, 4};
  wanted.n_boxes = 2;
  wanted.up_axis = 3;  // -x
  const Similarity placement = PlaceScene(Ring(), wanted, &geometry, &warnings);
  ExpectPoint(placement.ApplyToPoint({11, 19, 3}), {0, 0, 0});
  ExpectPoint(placement.ApplyToPoint({9, 19, 3}), {0, 0, 1});
  EXPECT_EQ(geometry.n_levels, 2);
  EXPECT_TRUE(warnings.empty());
}

// Ring() as a file of instant-ngp that names a reach alone.
ListedViews NgpRing(int aabb_scale) {
  ListedViews listed = Ring();
  listed.flavor = SceneFlavor::kInstantNgp;
  listed.aabb_scale = aabb_scale;
  return listed;
}

TEST(PlacementTest, ReachOfInstantNgpHoldsABoxAroundWhatTheCamerasLookAt) {
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  const Similarity placement = PlaceScene(NgpRing(16), {}, &geometry, &warnings);
  EXPECT_NEAR(placement.scale, 0.33, 1e-9) << "instant-ngp's frame is kept";
  const Vec3d looked_at = placement.ApplyToPoint({10, 20, 3});
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(geometry.box.Center()[axis], looked_at[axis], 1e-5);
    EXPECT_NEAR(geometry.box.Size()[axis], 2 * 0.375 * 10 * 0.33, 1e-5);
  }
  // The reach, 8 about 0.5, is 8 + 20 * 0.33 from the box's center; 2^4 half sides hold that.
  EXPECT_EQ(geometry.n_levels, 5);
}

TEST(PlacementTest, BoxesOfInstantNgpStayWhereTheFileOrTheUserNamesThem) {
  const Aabb unit = {{0, 0, 0}, {1, 1, 1}};
  ListedViews named = NgpRing(16), far_off = NgpRing(8), object = NgpRing(1);
  named.has_ngp_box = true;
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  for (const ListedViews* listed : {&named, &far_off, &object}) {
    PlaceScene(*listed, {}, &geometry, &warnings);
    EXPECT_EQ(geometry.box.min, unit.min) << listed->aabb_scale;
    EXPECT_EQ(geometry.box.max, unit.max) << listed->aabb_scale;
    EXPECT_EQ(geometry.n_levels, 1 + std::log2(listed->aabb_scale));
  }
  Placement wanted;
  wanted.box = OwnCube{{10, 20, 3}, 4};
  const Similarity placement = PlaceScene(NgpRing(16), wanted, &geometry, &warnings);
  EXPECT_EQ(geometry.box.max, unit.max);
  ExpectPoint(placement.ApplyToPoint({10, 20, 3}), {0.5, 0.5, 0.5});
  EXPECT_EQ(geometry.n_levels, 5);
}

TEST(PlacementTest, EveryAxisCanBeUp) {
  for (int axis = 0; axis < 6; ++axis) {
    SceneGeometry geometry;
    std::vector<std::string> warnings;
    const Similarity placement = PlaceScene(Ring(), UpAxis(axis), &geometry, &warnings);
    Vec3d up = {0, 0, 0};
    up[axis % 3] = axis < 3 ? 1 : -1;
    for (int i = 0; i < 3; ++i) {
      double turned = 0;
      for (int j = 0; j < 3; ++j) turned += placement.rotation[i][j] * up[j];
      EXPECT_NEAR(turned, i == 2 ? 1 : 0, 1e-9) << axis;
    }
  }
}

TEST(PlacementTest, FlavorsWithABoxKeepItsPlaceInTheTrainingFrame) {
  ListedViews listed = Ring();
  SceneGeometry geometry;
  std::vector<std::string> warnings;
  Placement wanted;
  wanted.box = OwnCube{{1, 2, 3}, 6};
  listed.flavor = SceneFlavor::kBlender;
  Similarity placement = PlaceScene(listed, wanted, &geometry, &warnings);
  ExpectPoint(placement.ApplyToPoint({1, 2, 3}), {0, 0, 0});
  ExpectPoint(placement.ApplyToPoint({4, 2, 3}), {1.5, 0, 0});
  listed.flavor = SceneFlavor::kInstantNgp;
  placement = PlaceScene(listed, wanted, &geometry, &warnings);
  ExpectPoint(placement.ApplyToPoint({1, 2, 3}), {0.5, 0.5, 0.5});
  ExpectPoint(placement.ApplyToPoint({1, 5, 3}), {1, 0.5, 0.5});
  EXPECT_TRUE(warnings.empty());
  PlaceScene(listed, UpAxis(1), &geometry, &warnings);
  ASSERT_EQ(warnings.size(), 1u);
}

}  // namespace
}  // namespace nerf
