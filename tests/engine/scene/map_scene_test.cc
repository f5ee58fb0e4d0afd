// A planted scene in coordinates of a map against the same scene where it was planted.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/cameras/path_frame.h"
#include "engine/scene/cameras/view_list.h"
#include "engine/scene/own_box.h"
#include "engine/scene/placement.h"
#include "engine/scene/read/check_report.h"
#include "engine/scene/read/placement_file.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/scene/planted_scene.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Vec3d kMapShift = {500000, 5200000, 300};
constexpr double kSceneSize = 8;  // of the planted cameras
constexpr double kMillionth = 1e-6;

class MapSceneTest : public ::testing::TestWithParam<PlantedForm> {
 protected:
  MapSceneTest() {
    here_.has_points = map_.has_points = true;
    map_.shift = kMapShift;
  }

  void Write() {
    here_.Write(here_folder_, GetParam());
    map_.Write(map_folder_, GetParam());
  }

  PlantedScene here_, map_;
  const TempFolder here_folder_, map_folder_;
};

INSTANTIATE_TEST_SUITE_P(Forms, MapSceneTest,
                         ::testing::Values(PlantedForm::kTransforms, PlantedForm::kColmap));

double Largest(const Mat34& a, const Mat34& b) {
  double largest = 0;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column)
      largest = std::max(largest, std::abs(double{a.m[row][column]} - b.m[row][column]));
  }
  return largest;
}

// Cameras close together before an object at 0, whose box lies there whatever they are.
TEST(SubtractOriginTest, AFixedFrameMovesForCoordinatesOfAMapAlone) {
  for (const SceneFlavor flavor : {SceneFlavor::kBlender, SceneFlavor::kInstantNgp}) {
    for (const double shift : {0.0, 5'200'000.0}) {
      ListedViews listed;
      listed.flavor = flavor;
      for (const Vec3d& at : {Vec3d{0, 0, 4}, Vec3d{0.04, 0, 4}, Vec3d{0.02, 0.02, 4}}) {
        listed.views.emplace_back();
        listed.views.back().pose.set_position(Sum(at, {shift, 0, 0}));
      }
      SubtractOrigin(&listed);
      EXPECT_EQ(listed.origin == (Vec3d{0, 0, 0}), shift == 0);
      EXPECT_NEAR(listed.views[0].pose.position()[0], 0, 0.1);
    }
  }
}

TEST_P(MapSceneTest, CamerasAndPointsArePlacedAsThoseOfTheUnmovedScene) {
  Write();
  const SceneDescription here = DescribeScene(here_folder_.path());
  const SceneDescription map = DescribeScene(map_folder_.path());
  ASSERT_TRUE(here.ok() && map.ok()) << SummaryOf(map.problems);
  EXPECT_THAT(map.warnings, IsEmpty());
  EXPECT_EQ(here.geometry.frame.origin, (Vec3d{0, 0, 0}));
  // The cameras' middle is at height 1.55.
  EXPECT_EQ(map.geometry.frame.origin, Sum(kMapShift, {0, 0, 2}));
  EXPECT_NEAR(map.geometry.frame.scale, here.geometry.frame.scale, kMillionth);
  ASSERT_EQ(map.train.size(), here.train.size());
  for (size_t i = 0; i < here.train.size(); ++i) {
    EXPECT_LT(Largest(here.train[i].camera.camera_to_world, map.train[i].camera.camera_to_world),
              kMillionth);
  }
  ASSERT_EQ(map.points.size(), here.points.size());
  EXPECT_EQ(map.points.empty(), GetParam() == PlantedForm::kTransforms);
  for (size_t i = 0; i < here.points.size(); ++i)
    EXPECT_LT(Norm(map.points[i].position - here.points[i].position), kMillionth);
  EXPECT_THAT(CheckReportText(map, "auto"), HasSubstr(" · about the origin 500000, 5200000, 302"));
  EXPECT_THAT(CheckReportText(here, "auto"), Not(HasSubstr("origin")));
}

TEST_P(MapSceneTest, BoxesOfTheUserAreInCoordinatesOfTheMap) {
  Write();
  SceneOptions here_options, map_options;
  here_options.placement.box = OwnCube{{0.25, -0.5, 0.125}, 3};
  map_options.placement.box = OwnCube{{500000.25, 5199999.5, 300.125}, 3};
  const SceneDescription here = DescribeScene(here_folder_.path(), here_options);
  const SceneDescription map = DescribeScene(map_folder_.path(), map_options);
  for (size_t i = 0; i < here.train.size(); ++i) {
    EXPECT_LT(Largest(here.train[i].camera.camera_to_world, map.train[i].camera.camera_to_world),
              2 * kMillionth);
  }
  OwnBox here_box{{0.25, 0.5, 1}, {1, 2, 3}}, map_box = here_box;
  for (int axis = 0; axis < 3; ++axis) map_box.center[axis] += kMapShift[axis];
  const CropBox a = ToTrainingFrame(here_box, here.geometry.frame),
                b = ToTrainingFrame(map_box, map.geometry.frame);
  EXPECT_LT(Norm(a.center - b.center), kMillionth);
  EXPECT_LT(Norm(a.axes[1] - b.axes[1]), 2 * kMillionth);
}

TEST_P(MapSceneTest, ListedCamerasAndThoseOfOtherProgramsComeBack) {
  Write();
  const Vec3d origin = DescribeScene(map_folder_.path()).geometry.frame.origin;
  const auto here = ReadViewList(here_folder_.path());
  const auto map = ReadViewList(map_folder_.path(), {}, "", {}, origin);
  ASSERT_THAT(here, IsOk());
  ASSERT_THAT(map, IsOk());
  ASSERT_EQ(here->views.size(), map->views.size());
  const auto here_frame = FrameOfTool(here_folder_.path(), PathTool::kNerfstudio);
  const auto map_frame = FrameOfTool(map_folder_.path(), PathTool::kNerfstudio);
  ASSERT_THAT(here_frame, IsOk());
  ASSERT_THAT(map_frame, IsOk());
  for (size_t i = 0; i < here->views.size(); ++i) {
    const Camera& own = here->views[i].camera;
    const Camera& about = map->views[i].camera;
    EXPECT_LT(Largest(own.camera_to_world, AboutOrigin(about, origin, kMapShift).camera_to_world),
              kMillionth * kSceneSize);
    EXPECT_LT(Largest(ToTrainingFrame(own, *here_frame).camera_to_world,
                      ToTrainingFrame(AboutOrigin(about, origin, map_frame->origin), *map_frame)
                          .camera_to_world),
              2 * kMillionth);
  }
}

TEST_P(MapSceneTest, PlacementFileKeepsItsOrigin) {
  const std::string text = R"({"own_to_training": [[1,0,0,0],[0,1,0,0],[0,0,1,0]],
      "box": [[-1,-1,-1],[1,1,1]], "boxes": 2, "origin": [499000, 5201000, 0]})";
  map_.files[kPlacementFile] = text;
  Write();
  const SceneDescription map = DescribeScene(map_folder_.path());
  ASSERT_TRUE(map.ok()) << SummaryOf(map.problems);
  EXPECT_EQ(map.geometry.frame.origin, (Vec3d{499000, 5201000, 0}));
  const Vec3 place = map.train[0].camera.camera_to_world.Column(3);
  EXPECT_NEAR(place.x, 1000, 5);
  EXPECT_NEAR(place.y, -1000, 5);
}

TEST(MapScenesTest, BoxOfInstantNgpFollowsTheOrigin) {
  PlantedScene here, map;
  map.shift = kMapShift;
  const TempFolder here_folder, map_folder;
  const auto write = [](PlantedScene& scene, const TempFolder& folder, const std::string& aabb) {
    scene.Write(folder, PlantedForm::kTransforms);
    auto json = nlohmann::json::parse(ReadFile(folder.PathOf("transforms.json")));
    json["aabb"] = nlohmann::json::parse(aabb);
    folder.Write("transforms.json", json.dump());
  };
  write(here, here_folder, "[[-2,-2,-2],[2,2,2]]");
  write(map, map_folder, "[[499998,5199998,298],[500002,5200002,302]]");
  const SceneDescription a = DescribeScene(here_folder.path());
  const SceneDescription b = DescribeScene(map_folder.path());
  ASSERT_EQ(b.geometry.flavor, SceneFlavor::kInstantNgp);
  for (size_t i = 0; i < a.train.size(); ++i) {
    EXPECT_LT(Largest(a.train[i].camera.camera_to_world, b.train[i].camera.camera_to_world),
              kMillionth);
  }
  const auto frame = FrameOfTool(map_folder.path(), PathTool::kInstantNgp);
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(*frame, b.geometry.frame);
}

TEST(MapScenesTest, CamerasOfFilesAreRelativeToTheOriginInDoubles) {
  const std::string json =
      R"({"w":8,"h":6,"fl_x":9,"frames":[{"transform_matrix":)"
      R"([[1,0,0,500000.123],[0,1,0,5200000.456],[0,0,1,300.789],[0,0,0,1]]}]})";
  const auto cameras = ParseCameras(json, "c", {}, kMapShift);
  ASSERT_THAT(cameras, IsOk());
  const Vec3 place = cameras->front().camera_to_world.Column(3);
  EXPECT_LT(Norm(place - Vec3{0.123f, 0.456f, 0.789f}), 1e-6f);
}

}  // namespace
}  // namespace nerf
