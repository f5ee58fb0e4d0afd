#include "engine/views/path/keyframe_path.h"

#include <gtest/gtest.h>

#include "engine/views/path/camera_path.h"

namespace nerf {
namespace {

PathCamera At(float x, float fov) { return {LookAt({x, 0, 2}, {x, 0, 0}, {0, 1, 0}), fov}; }

TEST(KeyframePathTest, PassesThroughItsKeyframesWithTheirFieldsOfView) {
  const std::vector<PathCamera> keys = {At(0, 40), At(1, 60), At(3, 50)};
  const auto cameras = ExpandKeyframes(keys, 5, /*is_closed=*/false);
  ASSERT_EQ(cameras.size(), 5u);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_NEAR(cameras[2 * i].camera_to_world.Column(3).x, keys[i].camera_to_world.Column(3).x,
                1e-5f);
    EXPECT_NEAR(cameras[2 * i].fov_degrees, keys[i].fov_degrees, 1e-4f);
  }
  EXPECT_GT(cameras[1].fov_degrees, 40);
  EXPECT_LT(cameras[1].fov_degrees, 60);
}

TEST(KeyframePathTest, ClosedPathLeadsBackWithoutRepeatingTheFirst) {
  const std::vector<PathCamera> keys = {At(0, 40), At(1, 60)};
  const auto cameras = ExpandKeyframes(keys, 4, /*is_closed=*/true);
  ASSERT_EQ(cameras.size(), 4u);
  EXPECT_NEAR(cameras[0].fov_degrees, 40, 1e-4f);
  EXPECT_NEAR(cameras[2].fov_degrees, 60, 1e-4f);
  EXPECT_NEAR(cameras[1].camera_to_world.Column(3).x, cameras[3].camera_to_world.Column(3).x,
              1e-5f);
}

TEST(KeyframePathTest, OneKeyframeIsAStill) {
  const auto cameras = ExpandKeyframes(std::vector<PathCamera>{At(1, 45)}, 3, false);
  ASSERT_EQ(cameras.size(), 3u);
  for (const PathCamera& camera : cameras) {
    EXPECT_EQ(camera.fov_degrees, 45);
    EXPECT_NEAR(camera.camera_to_world.Column(3).x, 1, 1e-6f);
  }
}

}  // namespace
}  // namespace nerf
