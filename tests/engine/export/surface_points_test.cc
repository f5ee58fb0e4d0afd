#include "engine/export/mesh/surface_points.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/export/mesh/shown_space.h"
#include "engine/views/render/orbit.h"
#include "tests/engine/export/shapes.h"

namespace nerf {
namespace {

Camera Front(int side) {
  Camera camera;
  camera.width = camera.height = side;
  camera.fl_x = camera.fl_y = 1.5f * static_cast<float>(side);
  camera.cx = camera.cy = 0.5f * static_cast<float>(side);
  return camera;
}

// Cameras around the box, at a distance of 3.
std::vector<Camera> Around(int n) {
  SceneGeometry geometry = ShapeGeometry();
  geometry.median_distance = 3;
  geometry.median_height = 1;
  return OrbitCameras(geometry, {}, Front(120), n);
}

std::vector<SurfacePoint> PointsOf(const Shape& shape, const std::vector<Camera>& cameras,
                                   int n_threads = 2) {
  ThreadPool pool(n_threads);
  const auto model = ModelOfShape(shape);
  SurfacePointOptions options;
  options.cell = 2.0f / 64;
  options.near = ShapeGeometry().near;
  return FindSurfacePoints(*model, cameras, options, &pool, {}, [](int) {});
}

TEST(SurfacePointsTest, LieOnTheSurfaceWithItsNormalsAndColors) {
  const std::vector<SurfacePoint> points = PointsOf(Sphere({}, 0.6f), Around(12));
  EXPECT_GT(points.size(), 1000u);
  double distance = 0, cosine = 0;
  for (const SurfacePoint& point : points) {
    distance += std::abs(Norm(point.position) - 0.6) / points.size();
    cosine += Dot(point.normal, Normalized(point.position)) / points.size();
    for (int axis = 0; axis < 3; ++axis) {
      EXPECT_NEAR(point.color[axis], 0.5f + 0.5f * point.position[axis], 0.08f);
    }
  }
  EXPECT_LT(distance, 0.01);
  EXPECT_GT(cosine, 0.97);
}

TEST(SurfacePointsTest, BytesDoNotDependOnThreads) {
  const auto one = PointsOf(Torus(0.5f, 0.2f), Around(5), 1);
  const auto three = PointsOf(Torus(0.5f, 0.2f), Around(5), 3);
  ASSERT_EQ(one.size(), three.size());
  ASSERT_FALSE(one.empty());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].position, three[i].position);
    EXPECT_EQ(one[i].color, three[i].color);
  }
}

TEST(SurfacePointsTest, WhatOneViewShowsAloneIsNoPoint) {
  // Two cameras look at the front, one at the back: nothing of the back is agreed on.
  std::vector<Camera> cameras(3, Front(100));
  cameras[0].camera_to_world.m[2][3] = 3;
  cameras[1].camera_to_world.m[2][3] = 3.2f;
  cameras[2].camera_to_world.m[2][3] = -3;
  cameras[2].camera_to_world.m[0][0] = cameras[2].camera_to_world.m[2][2] = -1;
  EXPECT_TRUE(PointsOf(Sphere({}, 0.6f), cameras).empty());
  cameras[2] = cameras[0];
  cameras[2].camera_to_world.m[2][3] = 3.4f;
  const std::vector<SurfacePoint> points = PointsOf(Sphere({}, 0.6f), cameras);
  EXPECT_GT(points.size(), 100u);
  for (const SurfacePoint& point : points) EXPECT_GT(point.position.z, 0);
}

TEST(ShownSpaceTest, IsInFrontOfWhatTwoViewsShow) {
  ThreadPool pool(2);
  const auto model = ModelOfShape(Sphere({}, 0.6f));
  std::vector<Camera> cameras(2, Front(100));
  cameras[0].camera_to_world.m[2][3] = 3;
  cameras[1].camera_to_world.m[2][3] = 3.2f;
  const auto shown = [&] {
    return *ShownSpace::Make(*model, cameras, ShapeGeometry().near, 0.05f, 0, &pool, {});
  };
  const ShownSpace by_two = shown();
  for (const Vec3 point : {Vec3{0, 0, 0.6f}, {0, 0, 0.57f}, {0, 0, 0.9f}, {0.3f, 0, 0.52f}})
    EXPECT_TRUE(by_two.Has(point)) << point.x << " " << point.z;
  // Inside, behind, beside it, behind the cameras.
  for (const Vec3 point : {Vec3{0, 0, 0.3f}, {0, 0, 0}, {0, 0, -0.6f}, {0.9f, 0, 0}, {0, 0, 4}})
    EXPECT_FALSE(by_two.Has(point)) << point.x << " " << point.z;
  cameras[1].camera_to_world.m[2][3] = -3;
  cameras[1].camera_to_world.m[0][0] = cameras[1].camera_to_world.m[2][2] = -1;
  EXPECT_FALSE(shown().Has({0, 0, 0.6f})) << "one of two shows it";
  cameras.pop_back();
  EXPECT_TRUE(shown().Has({0, 0, 0.6f}));
}

TEST(SurfacePointsTest, BentLensesAreReplacedByPinholes) {
  Camera fisheye = Front(100);
  fisheye.width = 200;
  fisheye.lens = LensModel::kFisheye;
  fisheye.k1 = 0.1f;
  const Camera pinhole = PinholeIn(fisheye, 640);
  EXPECT_EQ(pinhole.lens, LensModel::kPinhole);
  EXPECT_EQ(pinhole.width, 100);
  EXPECT_EQ(pinhole.height, 100);
  EXPECT_EQ(pinhole.fl_x, 50);
  EXPECT_EQ(pinhole.k1, 0);
  const Camera small = PinholeIn(Front(1000), 640);
  EXPECT_EQ(small.width, 640);
  EXPECT_NEAR(small.fl_x, 960, 0.1);
}

TEST(SurfacePointsTest, APanoramaIsReplacedByTheFacesOfACube) {
  Camera panorama = Front(100);
  panorama.width = 200;
  panorama.lens = LensModel::kEquirectangular;
  const std::vector<Camera> faces = PinholesIn(panorama, 640);
  ASSERT_EQ(faces.size(), 6u);
  EXPECT_EQ(PinholesIn(Front(100), 640).size(), 1u);
  for (int i = 0; i < 60; ++i) {
    const float turn = 0.7f * static_cast<float>(i), height = static_cast<float>(i) / 30 - 1;
    const Vec3 direction{std::cos(turn) * std::sqrt(1 - height * height), height,
                         std::sin(turn) * std::sqrt(1 - height * height)};
    int n_shown = 0;
    for (const Camera& face : faces) {
      const Mat34& pose = face.camera_to_world;
      EXPECT_NEAR(Dot(Cross(pose.Column(0), pose.Column(1)), pose.Column(2)), 1, 1e-6);
      EXPECT_EQ(pose.Column(3), panorama.camera_to_world.Column(3));
      const float ahead = -Dot(direction, pose.Column(2));
      n_shown += ahead > 0 && std::abs(Dot(direction, pose.Column(0))) <= ahead &&
                 std::abs(Dot(direction, pose.Column(1))) <= ahead;
    }
    EXPECT_EQ(n_shown, 1) << i;
  }
}

}  // namespace
}  // namespace nerf
