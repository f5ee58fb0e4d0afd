#include "engine/scene/view_frustum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace nerf {
namespace {

// Pictures of 80x60 by cameras at (x, 0, 0) that look along -z, half of them to each side of it by
// `turn` radians.
SceneDescription PicturesFrom(const std::vector<float>& places, float turn = 0) {
  SceneDescription description;
  for (const float x : places) {
    ViewDescription view;
    Camera& camera = view.camera;
    camera.width = 80;
    camera.height = 60;
    camera.fl_x = camera.fl_y = 80;
    camera.cx = 40;
    camera.cy = 30;
    const float angle = description.train.size() % 2 == 0 ? turn : -turn;
    camera.camera_to_world = {{{std::cos(angle), 0, std::sin(angle), x},
                               {0, 1, 0, 0},
                               {-std::sin(angle), 0, std::cos(angle), 0}}};
    description.train.push_back(view);
  }
  return description;
}

TEST(FindDepthsTest, AreThoseOfAllPointsOfAViewButOneInAHundred) {
  SceneDescription description = PicturesFrom({-0.5f, 0.5f, 0});
  for (int i = 1; i <= 29; ++i) description.points.push_back({2, {0, 0, -0.5f}});
  FindDepths(&description);
  EXPECT_EQ(description.nearest, 0) << "too few points";
  for (int i = 0; i < 400; ++i)
    description.points.push_back({i % 2, {5, 1, -2 - 0.005f * static_cast<float>(i)}});
  description.points.push_back({0, {0, 0, -0.01f}});
  description.points.push_back({0, {0, 0, -1e6f}});
  description.points.push_back({0, {0, 0, 7}});  // behind the camera
  FindDepths(&description);
  EXPECT_NEAR(description.nearest, 2, 0.05f);
  EXPECT_NEAR(description.farthest, 3.98f, 0.05f);
  // Of one view that stands close to something.
  for (int i = 0; i < 40; ++i) description.points.push_back({2, {0, 0, -0.7f}});
  FindDepths(&description);
  EXPECT_NEAR(description.nearest, 0.5f, 1e-6f);
}

TEST(FrustumOfViewsTest, HoldsAllThatViewsShow) {
  SceneDescription description = PicturesFrom({-0.5f, 0.1f, 0.1f, 0.5f}, 0.2f);
  EXPECT_TRUE(FrustumOfViews(description).empty()) << "nothing says how near";
  description.nearest = 2;
  const Frustum frustum = FrustumOfViews(description);
  ASSERT_FALSE(frustum.empty());
  EXPECT_NEAR(frustum.apex.x, 0.05f, 1e-6f);
  EXPECT_NEAR(frustum.forward.z, -1, 1e-6f);
  EXPECT_NEAR(frustum.up.y, 1, 1e-6f);
  EXPECT_NEAR(frustum.right.x, 1, 1e-6f);
  const EncodedSpace space{.kind = Contraction::kPerspective, .frustum = frustum};
  float widest = 0, nearest = 1;
  for (const ViewDescription& view : description.train) {
    for (const float x : {0.0f, 80.0f}) {
      for (const float y : {0.0f, 60.0f}) {
        for (const float t : {1.2f, 3.0f, 1e4f}) {
          const Ray ray = CameraRay(view.camera, x, y);
          const Vec3 unit = space.ToUnit(ray.origin + ray.direction * t);
          for (const float side : {unit.x, unit.y}) {
            EXPECT_GE(side, -1e-5f);
            EXPECT_LE(side, 1 + 1e-5f);
            widest = std::max(widest, std::abs(2 * side - 1));
          }
          nearest = std::min(nearest, unit.z);
        }
      }
    }
  }
  EXPECT_NEAR(widest, 1, 1e-3f) << "and no more";
  EXPECT_NEAR(nearest, 0, 1e-5f);
}

TEST(FrustumOfViewsTest, PicturesThatAreTurnedAgainstEachOtherHaveOneToo) {
  SceneDescription description = PicturesFrom({-0.5f, 0.5f});
  description.nearest = 2;
  Mat34& pose = description.train[1].camera.camera_to_world;
  for (auto& row : pose.m) row[0] = -row[0], row[1] = -row[1];
  const Frustum frustum = FrustumOfViews(description);
  ASSERT_FALSE(frustum.empty());
  EXPECT_NEAR(Dot(frustum.right, frustum.forward), 0, 1e-6f);
  EXPECT_NEAR(Norm(frustum.up), 1, 1e-6f);
}

TEST(HoldsFrustumTest, WhatIsNarrowerAndFartherIsHeld) {
  const Frustum outer{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, -1}, 1, 1};
  EXPECT_TRUE(HoldsFrustum(outer, outer));
  Frustum inner{{0.1f, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, -1}, 1.5f, 0.8f};
  EXPECT_TRUE(HoldsFrustum(outer, inner));
  EXPECT_FALSE(HoldsFrustum(inner, outer));
  inner.near = 0.9f;
  EXPECT_FALSE(HoldsFrustum(outer, inner)) << "begins before";
  inner.near = 1.5f;
  inner.apex.x = 1;
  EXPECT_FALSE(HoldsFrustum(outer, inner)) << "to the side";
  EXPECT_FALSE(HoldsFrustum(outer, Frustum()));
  EXPECT_FALSE(HoldsFrustum(Frustum(), outer));
  inner.apex.x = 0.1f;
  ASSERT_TRUE(HoldsFrustum(outer, inner));
  std::swap(inner.forward, inner.up);
  EXPECT_FALSE(HoldsFrustum(outer, inner)) << "looks elsewhere";
}

TEST(FrustumOfViewsTest, CamerasThatLookAroundOrAloneHaveNone) {
  SceneDescription around = PicturesFrom({-1, 1}, 1.2f);
  around.nearest = 2;
  EXPECT_TRUE(FrustumOfViews(around).empty());
  SceneDescription opposite = PicturesFrom({-1, 1}, 1.5707963f);
  opposite.nearest = 2;
  EXPECT_TRUE(FrustumOfViews(opposite).empty());
  SceneDescription alone = PicturesFrom({0});
  alone.nearest = 2;
  EXPECT_TRUE(FrustumOfViews(alone).empty());
  SceneDescription far_apart = PicturesFrom({-100, 100});
  far_apart.nearest = 2;
  EXPECT_TRUE(FrustumOfViews(far_apart).empty()) << "far wider than deep";
  SceneDescription panoramas = PicturesFrom({-1, 1});
  for (ViewDescription& view : panoramas.train) {
    view.camera.lens = LensModel::kEquirectangular;
    view.camera.fl_x = 80 / 6.2831853f;
    view.camera.fl_y = 60 / 3.1415927f;
  }
  panoramas.nearest = 2;
  EXPECT_TRUE(FrustumOfViews(panoramas).empty());
}

}  // namespace
}  // namespace nerf
