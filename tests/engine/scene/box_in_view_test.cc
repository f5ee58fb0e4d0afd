#include "engine/scene/judge/box_in_view.h"

#include <filesystem>
#include <fstream>

#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A copy of the sample scene: `change` is applied to its camera-to-world matrices (rows of a JSON
// array), and `keys` are added to both list files.
class ChangedMic {
 public:
  template <typename Change>
  explicit ChangedMic(const Change& change, const std::string& keys = "{}") {
    for (const char* split : {"train", "test"}) {
      // A copy, because a link would leave the folder, which is refused.
      std::filesystem::copy(std::filesystem::path(kMic) / split, folder_.PathOf(split));
      const std::string name = std::string("transforms_") + split + ".json";
      std::ifstream file(std::filesystem::path(kMic) / name);
      nlohmann::json list = nlohmann::json::parse(file);
      for (auto& frame : list["frames"]) change(frame["transform_matrix"]);
      list.update(nlohmann::json::parse(keys));
      folder_.Write(name, list.dump());
    }
  }
  SceneDescription Describe() const {
    return DescribeScene(folder_.path(), {.test_every = {}, .decode_images = false});
  }

 private:
  TempFolder folder_;
};

auto TimesLarger(double scale) {
  return [=](nlohmann::json& matrix) {
    for (int i = 0; i < 3; ++i) matrix[i][3] = matrix[i][3].get<double>() * scale;
  };
}

TEST(BoxInViewTest, PicturesOfTheSampleSceneShowItsBox) {
  const SceneDescription mic = DescribeScene(kMic, {.test_every = {}, .decode_images = false});
  EXPECT_GT(FractionSeeingBox(mic), 0.95);
  EXPECT_THAT(mic.warnings, IsEmpty());
}

TEST(BoxInViewTest, FractionFallsWithTheSquareOfTheScale) {
  const double at_5 = FractionSeeingBox(ChangedMic(TimesLarger(5)).Describe());
  const double at_10 = FractionSeeingBox(ChangedMic(TimesLarger(10)).Describe());
  EXPECT_NEAR(at_5, 0.06, 0.02);
  EXPECT_NEAR(at_10, 0.25 * at_5, 0.01);
}

TEST(BoxInViewTest, WarningForAnotherScaleSuggestsABoxThatFits) {
  const SceneDescription large = ChangedMic(TimesLarger(10)).Describe();
  ASSERT_TRUE(large.ok());
  EXPECT_THAT(
      large.warnings,
      ElementsAre(AllOf(
          HasSubstr("from (-1.5, -1.5, -1.5) to (1.5, 1.5, 1.5)"),
          HasSubstr("the cameras stand 40.3 from its center"),
          HasSubstr("in transforms_train.json and transforms_test.json, such as \"aabb\": [["))));
  // The suggested box is accepted.
  const std::string& text = large.warnings[0];
  const SceneDescription mended =
      ChangedMic(TimesLarger(10), "{" + text.substr(text.find("\"aabb\"")) + "}").Describe();
  ASSERT_TRUE(mended.ok());
  EXPECT_THAT(mended.warnings, IsEmpty());
  EXPECT_EQ(mended.geometry.flavor, SceneFlavor::kInstantNgp);
  EXPECT_GT(FractionSeeingBox(mended), 0.95);
  // Relative to the cameras' distance the box is as large as mic's.
  EXPECT_NEAR(mended.geometry.median_distance, 4.03 / 3, 0.05);
}

TEST(BoxInViewTest, WarningForASceneElsewhereSuggestsABoxThatFits) {
  const auto move = [](nlohmann::json& matrix) { matrix[0][3] = matrix[0][3].get<double>() + 100; };
  const SceneDescription far = ChangedMic(move).Describe();
  ASSERT_EQ(far.warnings.size(), 1u);
  const std::string& text = far.warnings[0];
  const SceneDescription mended =
      ChangedMic(move, "{" + text.substr(text.find("\"aabb\"")) + "}").Describe();
  EXPECT_THAT(mended.warnings, IsEmpty());
  EXPECT_GT(FractionSeeingBox(mended), 0.95);
}

TEST(BoxInViewTest, InstantNgpSceneWithoutItsScaleGetsAWarning) {
  const std::string keys = R"({"scale": 0.033, "offset": 0.5})";
  EXPECT_THAT(ChangedMic(TimesLarger(10), keys).Describe().warnings, IsEmpty());
  EXPECT_THAT(ChangedMic(TimesLarger(10), R"({"aabb_scale": 1})").Describe().warnings,
              ElementsAre(AllOf(HasSubstr("from (-1.515, -1.515, -1.515) to (1.515,"),
                                HasSubstr("the cameras stand 40.3 from its center"))));
}

// Columns y and z negated, as OpenCV has them.
TEST(BoxInViewTest, CamerasThatLookAwayGetAWarningAboutTheirAxes) {
  const SceneDescription backward = ChangedMic([](nlohmann::json& matrix) {
                                      for (int i = 0; i < 3; ++i) {
                                        for (int j : {1, 2}) {
                                          matrix[i][j] = -matrix[i][j].get<double>();
                                        }
                                      }
                                    }).Describe();
  EXPECT_THAT(backward.warnings, ElementsAre(HasSubstr("--poses opencv")));
}

// A longer focal length makes up for the distance: the object fills the picture.
TEST(BoxInViewTest, DistanceAloneIsNoReasonToWarn) {
  const SceneDescription far =
      ChangedMic(TimesLarger(10), R"({"camera_angle_x": 0.07})").Describe();
  EXPECT_THAT(far.warnings, IsEmpty());
}

TEST(BoxInViewTest, ScenesPlacedByTheirCamerasAreNotWarnedOf) {
  const SceneDescription scene =
      ChangedMic(TimesLarger(1000), R"({"camera_model": "PINHOLE"})").Describe();
  ASSERT_EQ(scene.geometry.flavor, SceneFlavor::kNerfstudio);
  EXPECT_THAT(scene.warnings, Not(Contains(HasSubstr("box"))));
}

}  // namespace
}  // namespace nerf
