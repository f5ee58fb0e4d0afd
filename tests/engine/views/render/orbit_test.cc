#include "engine/views/render/orbit.h"

#include <cmath>

#include "gtest/gtest.h"

namespace nerf {
namespace {

SceneGeometry MakeGeometry() {
  SceneGeometry geometry;
  geometry.mean_up = Normalized({0.2f, 0.1f, 1});
  geometry.median_distance = 4;
  geometry.median_height = 1.5f;
  return geometry;
}

Camera MakeIntrinsics() {
  Camera camera;
  camera.width = 40;
  camera.height = 30;
  camera.fl_x = camera.fl_y = 50;
  camera.cx = 20;
  camera.cy = 15;
  return camera;
}

TEST(OrbitTest, CamerasKeepDistanceAndHeightAndLookAtTheCenter) {
  const SceneGeometry geometry = MakeGeometry();
  const Vec3 center{0.5f, -1, 2};
  const std::vector<Camera> cameras = OrbitCameras(geometry, center, MakeIntrinsics(), 7);
  ASSERT_EQ(cameras.size(), 7u);
  Vec3 mean{0, 0, 0};
  for (const Camera& camera : cameras) {
    const Vec3 from_center = camera.camera_to_world.Column(3) - center;
    EXPECT_NEAR(Norm(from_center), 4, 1e-5);
    EXPECT_NEAR(Dot(from_center, geometry.mean_up), 1.5, 1e-5);
    const Ray ray = CameraRay(camera, 20, 15);
    EXPECT_NEAR(Norm(ray.direction + from_center * 0.25f), 0, 1e-5);
    EXPECT_GT(Dot(camera.camera_to_world.Column(1), geometry.mean_up), 0);
    EXPECT_EQ(camera.fl_x, 50);
    mean = mean + from_center * (1.0f / 7);
  }
  // Evenly spread: the mean lies on the axis.
  EXPECT_NEAR(Norm(mean - geometry.mean_up * 1.5f), 0, 1e-5);
}

TEST(OrbitTest, PosesAreRightHandedRotations) {
  for (const Camera& camera : OrbitCameras(MakeGeometry(), {0, 0, 0}, MakeIntrinsics(), 5)) {
    const Vec3 right = camera.camera_to_world.Column(0), up = camera.camera_to_world.Column(1);
    EXPECT_NEAR(Norm(right), 1, 1e-5);
    EXPECT_NEAR(Dot(right, up), 0, 1e-5);
    EXPECT_NEAR(Norm(Cross(right, up) - camera.camera_to_world.Column(2)), 0, 1e-5);
  }
}

TEST(OrbitTest, CamerasStraightAboveAndMissingStatisticsStillGiveACircle) {
  SceneGeometry geometry = MakeGeometry();
  geometry.median_height = 4;
  SceneGeometry empty;
  empty.mean_up = {0, 0, 0};
  for (const SceneGeometry& degenerate : {geometry, empty}) {
    for (const Camera& camera : OrbitCameras(degenerate, {0, 0, 0}, MakeIntrinsics(), 3)) {
      for (const auto& row : camera.camera_to_world.m) {
        for (const float value : row) EXPECT_TRUE(std::isfinite(value));
      }
      EXPECT_GT(Norm(camera.camera_to_world.Column(3)), 0.1f);
    }
  }
}

TEST(OrbitTest, NoneIsEmpty) {
  EXPECT_TRUE(OrbitCameras(MakeGeometry(), {0, 0, 0}, MakeIntrinsics(), 0).empty());
}

}  // namespace
}  // namespace nerf
