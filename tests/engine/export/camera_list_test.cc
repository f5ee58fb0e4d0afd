#include "engine/export/files/camera_list.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pose.h"
#include "nlohmann/json.hpp"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

Camera Lens(LensModel lens) {
  Camera camera;
  camera.width = 640;
  camera.height = 480;
  camera.fl_x = 500.25f;
  camera.fl_y = 501.5f;
  camera.cx = 321;
  camera.cy = 239.5f;
  camera.lens = lens;
  if (lens == LensModel::kOpenCv || lens == LensModel::kFisheye) {
    camera.k1 = 0.01f;
    camera.k2 = -0.002f;
  }
  if (lens == LensModel::kOpenCv) camera.p1 = 0.0003f;
  if (lens == LensModel::kFisheye) camera.k4 = 1e-4f;
  camera.camera_to_world.m[0][3] = 1.5f;
  camera.camera_to_world.m[2][3] = -2;
  return camera;
}

TEST(CameraListTest, CamerasReadBackInTheirOwnFrame) {
  SceneGeometry geometry;
  geometry.frame = ToSceneFrame({.scale = 0.5, .translation = {1, 2, 3}});
  const ExportAxes axes(AxesName::kDataset, false, geometry);
  std::vector<NamedCamera> cameras;
  for (const LensModel lens : {LensModel::kPinhole, LensModel::kOpenCv, LensModel::kFisheye}) {
    cameras.push_back({"images/1.png", Lens(lens)});
  }
  const auto read = ParseCameras(CameraListJson(cameras, axes));
  ASSERT_THAT(read, IsOk());
  ASSERT_EQ(read->size(), cameras.size());
  for (size_t i = 0; i < cameras.size(); ++i) {
    EXPECT_EQ((*read)[i], ToOwnFrame(cameras[i].camera, geometry.frame)) << i;
  }
}

TEST(CameraListTest, TurnedCamerasLookTheSameWay) {
  SceneGeometry geometry;
  geometry.flavor = SceneFlavor::kBlender;
  const ExportAxes axes(AxesName::kOpenCv, false, geometry);
  const NamedCamera cameras[] = {{"a.png", Lens(LensModel::kPinhole)}};
  const auto read = ParseCameras(CameraListJson(cameras, axes));
  ASSERT_THAT(read, IsOk());
  const Mat34& pose = read->front().camera_to_world;
  const Vec3 forward = axes.Direction({0, 0, -1}), place = axes.Point({1.5f, 0, -2});
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(-pose.m[axis][2], forward[axis], 1e-6);
    EXPECT_NEAR(pose.m[axis][3], place[axis], 1e-6);
  }
}

TEST(CameraListTest, DepthsTimesAndTheLensOfAllAreStated) {
  NamedCamera camera{"a.png", Lens(LensModel::kFisheye), "a.npy"};
  camera.camera.time = 0.5f;
  const ExportAxes axes(AxesName::kDataset, false, SceneGeometry());
  const auto list = nlohmann::json::parse(CameraListJson({&camera, 1}, axes));
  EXPECT_EQ(list["camera_model"], "OPENCV_FISHEYE");
  EXPECT_EQ(list["frames"][0]["depth_file_path"], "a.npy");
  EXPECT_EQ(list["frames"][0]["time"], 0.5);
  EXPECT_FALSE(IsListedLens(LensModel::kFieldOfView));
}

TEST(CameraListTest, TestViewsAreListed) {
  const Camera camera = Lens(LensModel::kPinhole);
  NamedCamera cameras[] = {{"a.png", camera}, {"b.png", camera}};
  const ExportAxes axes(AxesName::kDataset, false, SceneGeometry());
  EXPECT_FALSE(nlohmann::json::parse(CameraListJson(cameras, axes)).contains("train_filenames"));
  cameras[1].is_test = true;
  const auto list = nlohmann::json::parse(CameraListJson(cameras, axes));
  EXPECT_EQ(list["train_filenames"], nlohmann::json({"a.png"}));
  EXPECT_EQ(list["test_filenames"], nlohmann::json({"b.png"}));
}

TEST(CameraListTest, NamesThatAreNotUtf8AreReplaced) {
  const NamedCamera cameras[] = {{"\xff.png", Lens(LensModel::kPinhole)}};
  const std::string json =
      CameraListJson(cameras, ExportAxes(AxesName::kDataset, false, SceneGeometry()));
  EXPECT_NE(json.find("\xEF\xBF\xBD.png"), std::string::npos);
}

}  // namespace
}  // namespace nerf
