#include "engine/scene/cameras/path_frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/cameras/view_list.h"
#include "engine/scene/pose.h"
#include "tests/engine/scene/scene_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

class PathFrameTest : public ::testing::Test {
 protected:
  // Three cameras around (10, 20, 30), the furthest coordinate 4 away, with +y up.
  void WriteScene(const std::string& keys) {
    for (const char* name : {"a.png", "b.png", "c.png"}) dir_.Write(name, MakePng(8, 6));
    dir_.Write("transforms.json", "{" + keys + R"("fl_x": 10, "w": 8, "h": 6, "frames": [)" +
                                      FrameJson("a.png", 6, 20, 30) + "," +
                                      FrameJson("b.png", 14, 20, 30) + "," +
                                      FrameJson("c.png", 10, 20, 30) + "]}");
  }
  TempFolder dir_;
};

TEST_F(PathFrameTest, NerfstudioPutsTheCamerasIntoItsUnitCube) {
  WriteScene("");
  dir_.Write("path.json", R"({"render_width": 64, "render_height": 48, "camera_path": [
      {"camera_to_world": [1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1], "fov": 90},
      {"camera_to_world": [1,0,0,0.5, 0,1,0,0, 0,0,1,0, 0,0,0,1], "fov": 90}]})");
  const auto unknown = ReadViewList(dir_.PathOf("path.json"));
  ASSERT_THAT(unknown, IsOk());
  EXPECT_EQ(unknown->in_frame_of, PathTool::kNerfstudio);
  const auto list = ReadViewList(dir_.PathOf("path.json"), {}, dir_.path());
  ASSERT_THAT(list, IsOk());
  EXPECT_FALSE(list->in_frame_of.has_value());
  const Vec3 origin = list->views[0].camera.camera_to_world.Column(3);
  EXPECT_NEAR(origin.x, 10, 1e-4);
  EXPECT_NEAR(origin.y, 20, 1e-4);
  EXPECT_NEAR(origin.z, 30, 1e-4);
  const Vec3 half = list->views[1].camera.camera_to_world.Column(3);
  EXPECT_NEAR(Norm(half - origin), 2, 1e-4) << "a unit is 4 of the data set's";
}

TEST_F(PathFrameTest, CamerasAloneGiveTheFrameOfTheirFile) {
  WriteScene(R"("aabb_scale": 4, )");
  const auto cameras = ReadCameraFile(dir_.PathOf("transforms.json"));
  ASSERT_THAT(cameras, IsOk());
  std::vector<Pose> poses;
  for (const Camera& camera : *cameras) poses.push_back(ToPose(camera.camera_to_world));
  for (const PathTool tool : {PathTool::kNerfstudio, PathTool::kInstantNgp}) {
    const auto frame = FrameOfTool(dir_.path(), tool);
    ASSERT_THAT(frame, IsOk());
    EXPECT_EQ(ToTrainingFrame(cameras->at(1), FrameOfCameras(poses, {}, tool)),
              ToTrainingFrame(cameras->at(1), *frame));
  }
}

TEST_F(PathFrameTest, InstantNgpScalesAndShifts) {
  WriteScene(R"("aabb_scale": 4, "scale": 0.5, "offset": [0.1, 0.2, 0.3], )");
  const auto frame = FrameOfTool(dir_.path(), PathTool::kInstantNgp);
  ASSERT_THAT(frame, IsOk());
  Camera camera;
  camera.camera_to_world.m[0][3] = 1;
  camera.camera_to_world.m[1][3] = 2;
  camera.camera_to_world.m[2][3] = 3;
  // (x, y, z) * scale + offset, then y, z, x.
  const Vec3 there = ToTrainingFrame(camera, *frame).camera_to_world.Column(3);
  EXPECT_NEAR(there.x, 1.2, 1e-5);
  EXPECT_NEAR(there.y, 1.8, 1e-5);
  EXPECT_NEAR(there.z, 0.6, 1e-5);
}

TEST_F(PathFrameTest, FoldersWithoutViewsAreRefused) {
  EXPECT_THAT(FrameOfTool(dir_.PathOf("absent"), PathTool::kNerfstudio),
              StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(FrameOfTool(dir_.path(), PathTool::kNerfstudio),
              StatusIs(StatusCode::kInvalidArgument, "neither transforms.json"));
  dir_.Write("transforms.json", R"({"fl_x": 10, "frames": "none"})");
  EXPECT_THAT(FrameOfTool(dir_.path(), PathTool::kNerfstudio),
              StatusIs(StatusCode::kInvalidArgument, "frames"));
}

TEST(IsTrainingFrameTest, OnlyFixedPlacementsAgree) {
  EXPECT_TRUE(IsTrainingFrame(PathTool::kInstantNgp, SceneFlavor::kInstantNgp, {}));
  EXPECT_TRUE(IsTrainingFrame(PathTool::kNerfstudio, SceneFlavor::kBlender, {}));
  EXPECT_FALSE(IsTrainingFrame(PathTool::kNerfstudio, SceneFlavor::kNerfstudio, {}));
  EXPECT_FALSE(IsTrainingFrame(PathTool::kInstantNgp, SceneFlavor::kBlender, {}));
  EXPECT_FALSE(IsTrainingFrame(PathTool::kNerfstudio, SceneFlavor::kBlender, {500000, 0, 0}));
}

}  // namespace
}  // namespace nerf
