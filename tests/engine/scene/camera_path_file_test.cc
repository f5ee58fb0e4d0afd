// Camera paths of other programs.
#include "engine/scene/cameras/camera_path_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

constexpr char kNerfstudio[] = R"({
  "camera_type": "perspective", "render_width": 640, "render_height": 480, "fps": 24, "seconds": 4,
  "is_cycle": true, "keyframes": [], "crop": null,
  "camera_path": [
    {"camera_to_world": [1,0,0,0.5, 0,0,-1,0.25, 0,1,0,2, 0,0,0,1], "fov": 90, "aspect": 1.3333},
    {"camera_to_world": [1,0,0,0.6, 0,0,-1,0.25, 0,1,0,2, 0,0,0,1], "fov": 90, "aspect": 1.3333,
     "render_time": 0.5}]})";

// A quaternion of 0 turns, an instant-ngp camera that looks along +z with y down.
constexpr char kInstantNgp[] = R"({
  "loop": false, "time": 0, "duration_seconds": 3,
  "path": [{"R": [0,0,0,1], "T": [0.5,0.5,0.1], "fov": 60, "scale": 1.5, "slice": 0},
           {"R": [0,0,0,1], "T": [0.6,0.5,0.1], "fov": 60}]})";

TEST(CameraPathFileTest, NerfstudioViewsAreRead) {
  ASSERT_TRUE(IsCameraPath(kNerfstudio));
  const auto file = ParseCameraPath(kNerfstudio, "path.json", {});
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->tool, PathTool::kNerfstudio) << "whose own keyframes are not read";
  ASSERT_EQ(file->cameras.size(), 2u);
  EXPECT_FALSE(file->are_keyframes);
  EXPECT_TRUE(file->is_loop);
  EXPECT_EQ(file->seconds, 4);
  const Camera& camera = file->cameras[0];
  EXPECT_EQ(camera.width, 640);
  EXPECT_NEAR(camera.fl_y, 240, 1e-3) << "90 degrees from top to bottom";
  EXPECT_EQ(camera.fl_x, camera.fl_y);
  EXPECT_EQ(camera.cx, 320);
  EXPECT_NEAR(camera.camera_to_world.m[0][3], 0.5f, 1e-6);
  EXPECT_NEAR(camera.camera_to_world.m[2][1], 1, 1e-6) << "up is +z";
  EXPECT_EQ(file->cameras[1].time, 0.5f) << "render_time";
  EXPECT_TRUE(file->warnings.empty());
}

TEST(CameraPathFileTest, InstantNgpKeyframesNeedASize) {
  ASSERT_TRUE(IsCameraPath(kInstantNgp));
  EXPECT_THAT(ParseCameraPath(kInstantNgp, "base_cam.json", {}),
              StatusIs(StatusCode::kInvalidArgument, "--width and --height"));
  const auto file = ParseCameraPath(kInstantNgp, "base_cam.json", {200, 100});
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(file->are_keyframes);
  EXPECT_EQ(file->seconds, 3);
  const Camera& camera = file->cameras[1];
  EXPECT_NEAR(camera.fl_y, 50 / std::tan(30 * 3.14159265 / 180), 1e-3);
  EXPECT_NEAR(camera.camera_to_world.m[2][2], -1, 1e-6) << "looks along +z";
  EXPECT_NEAR(camera.camera_to_world.m[1][1], -1, 1e-6) << "its y is down";
  EXPECT_NEAR(camera.camera_to_world.m[0][3], 0.6f, 1e-6);
}

TEST(CameraPathFileTest, KeyframesOfRenderJobsAreInTheDataSetsOwnFrame) {
  constexpr char kKeyframes[] = R"({"loop": true, "seconds": 2, "keyframes": [
      {"transform_matrix": [[1,0,0,5e8],[0,1,0,2],[0,0,1,3],[0,0,0,1]], "fov": 90},
      {"transform_matrix": [[1,0,0,0],[0,1,0,2],[0,0,1,3],[0,0,0,1]]}]})";
  ASSERT_TRUE(IsCameraPath(kKeyframes));
  EXPECT_THAT(ParseCameraPath(kKeyframes, "f", {}),
              StatusIs(StatusCode::kInvalidArgument, "--width and --height"));
  const auto file = ParseCameraPath(kKeyframes, "f", {200, 100});
  ASSERT_THAT(file, IsOk());
  EXPECT_FALSE(file->tool.has_value());
  EXPECT_TRUE(file->are_keyframes && file->is_loop);
  EXPECT_EQ(file->seconds, 2);
  ASSERT_EQ(file->cameras.size(), 2u);
  EXPECT_EQ(file->cameras[0].camera_to_world.m[0][3], 5e8f);
  EXPECT_NEAR(file->cameras[0].fl_y, 50, 1e-3);
  EXPECT_NEAR(file->cameras[1].fl_y, 50 / std::tan(25 * 3.14159265 / 180), 1e-3) << "50 degrees";
}

TEST(CameraPathFileTest, OtherFilesAreNoCameraPaths) {
  EXPECT_FALSE(IsCameraPath(R"({"frames": [], "path": []})"));
  EXPECT_FALSE(IsCameraPath("[1, 2]"));
  EXPECT_FALSE(IsCameraPath("{"));
  EXPECT_FALSE(IsCameraPath(""));
}

TEST(CameraPathFileTest, HostileFilesAreRefusedByName) {
  struct Case {
    const char* text;
    const char* said;
  };
  const Case kCases[] = {
      {R"({"camera_path": [], "render_width": 1, "render_height": 1})", "camera_path"},
      {R"({"camera_path": 5, "render_width": 1, "render_height": 1})", "camera_path"},
      {R"({"camera_path": [{}], "render_width": 1e9, "render_height": 1})", "render_width"},
      {R"({"camera_path": [{}], "render_height": 1})", "render_width: is missing"},
      {R"({"camera_path": [7], "render_width": 1, "render_height": 1})", "must be an object"},
      {R"({"camera_path": [{"fov": 200, "camera_to_world": []}], "render_width": 1,
           "render_height": 1})",
       "fov"},
      {R"({"camera_path": [{"fov": 50, "camera_to_world": [1,2,3]}], "render_width": 1,
           "render_height": 1})",
       "16 numbers"},
      {R"({"camera_path": [{"fov": 50, "camera_to_world":
           [0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,1]}], "render_width": 1, "render_height": 1})",
       "no rotation"},
      {R"({"camera_path": [{"fov": 50, "camera_to_world":
           [1e99,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1]}], "render_width": 1, "render_height": 1})",
       "16 numbers"},
      {R"({"camera_type": "fisheye", "camera_path": [{}], "render_width": 1,
           "render_height": 1})",
       "camera_type"},
      {R"({"path": [{"R": [0,0,0,0], "T": [0,0,0], "fov": 50}]})", "no rotation"},
      {R"({"path": [{"R": "x", "T": [0,0,0], "fov": 50}]})", "4 numbers"},
      {R"({"path": {}})", "list"},
      {R"({"keyframes": []})", "keyframes"},
      {R"({"keyframes": [3]})", "must be an object"},
      {R"({"keyframes": [{"fov": 50}]})", "transform_matrix: must be 16 numbers"},
      {R"({"keyframes": [{"transform_matrix": [[1,0,0,1e10],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]})",
       "transform_matrix: must be 16 numbers"},
      {R"({"keyframes": [{"transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]],
           "fov": 180}]})",
       "keyframes[0].fov"},
  };
  for (const Case& bad : kCases) {
    EXPECT_THAT(ParseCameraPath(bad.text, "f", {100, 100}),
                StatusIs(StatusCode::kInvalidArgument, bad.said))
        << bad.text;
  }
}

}  // namespace
}  // namespace nerf
