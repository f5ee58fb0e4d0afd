#include "client/calls/share_start.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/views/path/camera_path.h"

namespace nerf {
namespace {

v1::Camera CameraAt(Vec3 position, Vec3 target) {
  const Mat34 pose = LookAt(position, target, {0, 0, 1});
  v1::Camera camera;
  camera.set_width(30);
  camera.set_height(40);
  camera.set_fl_x(35);
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) camera.add_transform_matrix(pose.m[row][column]);
  }
  for (const double value : {0, 0, 0, 1}) camera.add_transform_matrix(value);
  return camera;
}

Vec3 PlaceOf(const v1::Camera& camera) {
  const auto at = [&](int i) { return static_cast<float>(camera.transform_matrix(i)); };
  return {at(3), at(7), at(11)};
}

TEST(ShareStartTest, OfAWallItIsTheCameraInTheMiddleOfAll) {
  std::vector<v1::Camera> cameras;
  for (const float x : {-2.0f, 2.0f, 0.1f, -1.0f, 1.0f}) {
    cameras.push_back(CameraAt({x, -3, 0.5f}, {0, 0, 0.5f}));
  }
  v1::Share share;
  SetStart(cameras, &share);
  EXPECT_EQ(share.camera().SerializeAsString(), cameras[2].SerializeAsString());
  ASSERT_EQ(share.center_size(), 3);
  EXPECT_NEAR(share.center(1), 0, 1e-3) << "on the wall";
  ASSERT_EQ(share.up_size(), 3);
  EXPECT_NEAR(share.up(2), 1, 1e-3);
}

TEST(ShareStartTest, OfAnObjectItIsACornerAtTheHeightOfTheCameras) {
  std::vector<v1::Camera> cameras;
  for (int i = 0; i < 12; ++i) {
    const float angle = 0.5236f * static_cast<float>(i);
    cameras.push_back(CameraAt({2 * std::cos(angle), 2 * std::sin(angle), 1}, {0, 0, 0}));
  }
  v1::Share share;
  SetStart(cameras, &share);
  const Vec3 position = PlaceOf(share.camera());
  EXPECT_NEAR(Norm(position), std::sqrt(5.0f), 1e-3);
  EXPECT_NEAR(position.z, 1, 1e-3);
  EXPECT_NEAR(std::atan2(position.y, position.x), 0.8, 1e-3);
  EXPECT_EQ(share.camera().fl_x(), 35);
}

TEST(ShareStartTest, CoordinatesOfAMapKeepTheirDigits) {
  const double shift[3] = {500000, 5200000, 300};
  std::vector<v1::Camera> near, far;
  for (int i = 0; i < 12; ++i) {
    const float angle = 0.5236f * static_cast<float>(i);
    near.push_back(CameraAt({2 * std::cos(angle), 2 * std::sin(angle), 1}, {0, 0, 0}));
    far.push_back(near.back());
    for (int row = 0; row < 3; ++row) {
      const int at = 4 * row + 3;
      far.back().set_transform_matrix(at, far.back().transform_matrix(at) + shift[row]);
    }
  }
  v1::Share here, there;
  SetStart(near, &here);
  SetStart(far, &there);
  for (int row = 0; row < 3; ++row) {
    const int at = 4 * row + 3;
    EXPECT_NEAR(there.camera().transform_matrix(at) - here.camera().transform_matrix(at),
                shift[row], 1e-5);
    EXPECT_NEAR(there.center(row) - here.center(row), shift[row], 1e-5);
    EXPECT_NEAR(there.up(row), here.up(row), 1e-5);
  }
}

TEST(ShareStartTest, WithoutCamerasItIsNotSet) {
  v1::Share share;
  SetStart({}, &share);
  SetStart(std::vector<v1::Camera>(2), &share);
  EXPECT_FALSE(share.has_camera());
}

}  // namespace
}  // namespace nerf
