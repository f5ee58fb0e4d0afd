#include "engine/export/files/camera_path_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine/scene/pose.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// Cameras that look everywhere, also straight along the axes.
std::vector<Camera> Cameras() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<Camera> cameras;
  for (int i = 0; i < 60; ++i) {
    Vec3 back{normal(random), normal(random), normal(random)};
    Vec3 up{normal(random), normal(random), normal(random)};
    if (i < 6) {
      back = up = Vec3{};
      back[i % 3] = i < 3 ? 1.0f : -1.0f;
      up[(i + 1) % 3] = 1;
    }
    back = Normalized(back);
    const Vec3 right = Normalized(Cross(up, back));
    up = Cross(back, right);
    Camera camera;
    camera.width = 320;
    camera.height = 200;
    camera.fl_x = camera.fl_y = 150.0f + static_cast<float>(i);
    camera.cx = 160;
    camera.cy = 100;
    for (int row = 0; row < 3; ++row) {
      camera.camera_to_world.m[row][0] = right[row];
      camera.camera_to_world.m[row][1] = up[row];
      camera.camera_to_world.m[row][2] = back[row];
      camera.camera_to_world.m[row][3] = normal(random);
    }
    camera.time = static_cast<float>(i) / 60;
    cameras.push_back(camera);
  }
  return cameras;
}

TEST(CameraPathListTest, PathsAreReadBackAsTheyWereWritten) {
  const std::vector<Camera> cameras = Cameras();
  for (const PathTool tool : {PathTool::kNerfstudio, PathTool::kInstantNgp}) {
    const std::string text = CameraPathJson(tool, cameras, 12);
    EXPECT_TRUE(IsCameraPath(text));
    const auto read = ParseCameraPath(text, "path", {320, 200});
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->tool, tool);
    EXPECT_EQ(read->seconds, 12);
    EXPECT_EQ(read->are_keyframes, tool == PathTool::kInstantNgp);
    ASSERT_EQ(read->cameras.size(), cameras.size());
    for (size_t i = 0; i < cameras.size(); ++i) {
      const Camera& camera = read->cameras[i];
      EXPECT_EQ(camera.width, 320);
      EXPECT_NEAR(camera.fl_y, cameras[i].fl_y, 1e-3f);
      const float time = tool == PathTool::kNerfstudio ? cameras[i].time : 0;
      EXPECT_FLOAT_EQ(camera.time, time);
      for (int row = 0; row < 3; ++row) {
        for (int column = 0; column < 4; ++column) {
          EXPECT_NEAR(camera.camera_to_world.m[row][column],
                      cameras[i].camera_to_world.m[row][column], 1e-5f)
              << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nerf
