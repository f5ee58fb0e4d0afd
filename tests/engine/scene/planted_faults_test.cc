// Thirty faults that people's data sets have, each planted in a scene that has none, as
// transforms.json and as a COLMAP model. The report names cause, place and remedy in its first two
// lines.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/scene/read/check_report.h"
#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/planted_scene.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct PlantedFault {
  std::string name;
  std::function<void(PlantedScene*, PlantedForm)> plant;
  // What the first two lines hold, beside the place: of transforms.json, then of COLMAP.
  std::vector<std::string> words, words_of_colmap = {};
  std::string place, place_of_colmap;  // file, field or picture
};

void Turn(Pose* pose) {
  for (auto& row : pose->m) {
    row[0] = -row[0];
    row[2] = -row[2];
  }
}

std::string GrayPng(int width, int height, uint8_t value) {
  const auto n = static_cast<size_t>(width) * static_cast<size_t>(height);
  return *EncodePng({width, height, 1, std::vector<uint8_t>(n, value)});
}

// Masks of all shots.
void AddMasks(PlantedScene* scene, const std::string& folder, const std::string& png) {
  for (const PlantedScene::Shot& shot : scene->shots)
    scene->files[absl::StrCat(folder, "/", shot.name)] = png;
}

const std::vector<PlantedFault>& Faults() {
  using Scene = PlantedScene;
  using Form = PlantedForm;
  static const auto* const faults = new std::vector<PlantedFault>{
      // Cameras.
      {"stray",
       [](Scene* s, Form) { s->shots[5].pose.m[0][3] += 3000; },
       {"stands far from all others", "shot_05.png", "correct the pose"},
       {},
       "transforms.json: frames[5]",
       "sparse/0/images.txt: line 11"},
      {"several_strays",
       [](Scene* s, Form) {
         for (const int i : {2, 7}) s->shots[i].pose.m[1][3] -= 500 * i;
       },
       {"2 cameras stand far from all others", "shot_02.png", "correct the pose"},
       {},
       "transforms.json: frames[7]",
       "images.txt: line 15"},
      {"most_disagree",
       [](Scene* s, Form) {
         for (int i = 0; i < 5; ++i) s->shots[i].pose.m[i % 3][3] += 900.0 * (i + 1) * (i + 2);
       },
       {"error", "5 cameras stand far", "too much for one capture"},
       {},
       "transforms.json: frames[4]",
       "images.txt: line 9"},
      {"looks_away",
       [](Scene* s, Form) { Turn(&s->shots[3].pose); },
       {"looks away from what all others look at", "shot_03.png", "correct the pose"},
       {},
       "transforms.json: frames[3]",
       "images.txt: line 7"},
      {"same_pose",
       [](Scene* s, Form) { s->shots[8].pose = s->shots[4].pose; },
       {"share a pose", "images/shot_04.png, images/shot_08.png", "correct the poses"},
       {},
       "transforms.json: frames[8]",
       "images.txt: line 17"},
      {"one_position",
       [](Scene* s, Form) {
         for (auto& shot : s->shots) {
           for (auto& row : shot.pose.m) row[3] = 0;
         }
       },
       {"all cameras have the same position", "move between photographs"},
       {},
       "transforms.json",
       "sparse/0"},
      {"no_number",
       [](Scene* s, Form) { s->shots[1].pose.m[0][3] = kNan; },
       {"error", "must be a number"},
       {"error", "pose"},
       "frames[1].transform_matrix",
       "images.txt: line 3"},
      {"mirrored",
       [](Scene* s, Form form) {
         // Quaternions cannot mirror; zero ones turn nowhere.
         for (auto& row : s->shots[6].pose.m) {
           if (form == Form::kTransforms) {
             row[0] = -row[0];
           } else {
             row[0] = kNan;
           }
         }
       },
       {"error", "mirrored"},
       {"error", "not a rotation"},
       "frames[6].transform_matrix",
       "images.txt: line 13"},
      {"huge",
       [](Scene* s, Form) { s->shots[9].pose.m[2][3] = 1e15; },
       {"error", "up to 1e9"},
       {"error", "not finite or beyond 1e9", "register it again"},
       "frames[9].transform_matrix",
       "images.txt: line 19"},
      {"other_axes",
       [](Scene* s, Form form) {
         if (form == Form::kColmap) s->has_points = true;
         for (auto& shot : s->shots) {
           for (auto& row : shot.pose.m) {
             row[1] = -row[1];
             row[2] = -row[2];
           }
         }
       },
       {"look away from each other", "--poses opencv"},
       {"contradict the model's own points", "export the model again"},
       "transforms.json",
       "sparse/0/images.txt"},
      // Intrinsics.
      {"center_as_share",
       [](Scene* s, Form) { s->center[0] = s->center[1] = 0.5; },
       {"center 0.5, 0.5", "share of the sides", "20, 15"},
       {},
       "transforms.json: cx",
       "cameras.txt: line 1"},
      {"center_as_offset",
       [](Scene* s, Form) { s->center[0] = s->center[1] = -0.25; },
       {"offset from the middle", "19.75, 14.75"},
       {},
       "transforms.json: cx",
       "cameras.txt: line 1"},
      {"focal_in_millimeters",
       [](Scene* s, Form) { s->focal[0] = s->focal[1] = 4.2; },
       {"field of view of 156 degrees", "millimeters"},
       {},
       "transforms.json: fl_x",
       "cameras.txt: line 1"},
      {"focal_of_one_axis",
       [](Scene* s, Form) { s->focal[1] = 88; },
       {"differ in the two axes", "check both"},
       {},
       "transforms.json: fl_x",
       "cameras.txt: line 1"},
      {"distortion_folds",
       [](Scene* s, Form) { s->k1 = -2.5; },
       {"cannot be undone", "check the camera model"},
       {},
       "transforms.json: k1",
       "cameras.txt: line 1"},
      // Masks and depths.
      {"masks_black",
       [](Scene* s, Form) { AddMasks(s, "masks", GrayPng(40, 30, 0)); },
       {"error", "masks leave 0%", "white is what counts"},
       {},
       "masks/shot_01.png",
       "masks/shot_01.png"},
      {"mask_of_another_shape",
       [](Scene* s, Form) { s->files["masks/shot_02.png"] = GrayPng(30, 30, 255); },
       {"error", "shot_02.png", "is 30x30, its picture 40x30", "a mask has its picture's shape"},
       {},
       "masks/shot_02.png",
       "masks/shot_02.png"},
      {"masks_unused",
       [](Scene* s, Form) { AddMasks(s, "my_masks", GrayPng(40, 30, 255)); },
       {"12 pictures look like masks and are not used", "masks/NAME.png"},
       {},
       "my_masks/shot_00.png",
       "my_masks/shot_00.png"},
      {"depths_unused",
       [](Scene* s, Form) { AddMasks(s, "depth", GrayPng(40, 30, 9)); },
       {"12 files look like depths and are not used", "depth_file_path"},
       {},
       "depth/shot_00.png",
       "depth/shot_00.png"},
      {"mask_damaged",
       [](Scene* s, Form) { s->files["masks/shot_03.png"] = "\x89PNG\r\n\x1a\n broken"; },
       {"error", "shot_03.png"},
       {},
       "masks/shot_03.png",
       "masks/shot_03.png"},
      // Names.
      {"list_misspelt",
       [](Scene* s, Form form) {
         s->list_name = form == Form::kTransforms ? "transform.json" : "sparce/0";
       },
       {"error", "rename it to transforms.json"},
       {"error", "rename"},
       "transform.json",
       "sparce/0"},
      {"all_missing",
       [](Scene* s, Form) {
         for (auto& shot : s->shots) shot.listed = "other" + shot.listed;
       },
       {"error", "none of the 12 listed images exists", "othershot_00.png",
        "relative to the folder"},
       {},
       "transforms.json: frames",
       "sparse/0"},
      {"some_missing",
       [](Scene* s, Form) { s->shots[4].listed = "gone.png"; },
       {"1 of 12 listed images do not exist", "add"},
       {},
       "images/gone.png",
       "images/gone.png"},
      {"two_fit",
       [](Scene* s, Form) {
         s->shots[2].listed = "SHOT_X.png";
         s->files["images/shot_x.png"] = s->files["images/Shot_x.png"] = MakePng(40, 30);
       },
       {"error", "2 files fit"},
       {},
       "SHOT_X.png",
       "SHOT_X.png"},
      {"listed_twice",
       [](Scene* s, Form) { s->shots[7].listed = s->shots[6].listed; },
       {"error", "listed twice"},
       {},
       "frames[7].file_path",
       "images.txt: line 15"},
      // Pictures.
      {"turned",
       [](Scene* s, Form) { s->files["images/shot_05.png"] = MakePng(30, 40); },
       {"error", "sides of 1 picture are swapped", "turn them back"},
       {},
       "shot_05.png",
       "shot_05.png"},
      {"other_shape",
       [](Scene* s, Form) { s->files["images/shot_06.png"] = MakePng(40, 20); },
       {"error", "another aspect ratio", "40 x 20"},
       {},
       "shot_06.png",
       "shot_06.png"},
      {"damaged",
       [](Scene* s, Form) {
         const std::string png = MakePng(40, 30);
         s->files["images/shot_07.png"] = png.substr(0, png.size() / 2);
       },
       {"error", "PNG"},
       {},
       "images/shot_07.png",
       "images/shot_07.png"},
      {"empty",
       [](Scene* s, Form) { s->files["images/shot_08.png"] = ""; },
       {"error", "empty"},
       {},
       "images/shot_08.png",
       "images/shot_08.png"},
      {"of_another_kind",
       [](Scene* s, Form) { s->files["images/shot_09.png"] = "BM" + std::string(80, '\0'); },
       {"error", "BMP", "PNG or JPEG"},
       {},
       "images/shot_09.png",
       "images/shot_09.png"},
  };
  return *faults;
}

SceneDescription Judged(const std::string& folder) {
  SceneOptions options;
  options.to_train = true;
  return DescribeScene(folder, options);
}

std::string FirstTwoLines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.resize(std::min<size_t>(2, lines.size()));
  return absl::StrJoin(lines, "\n");
}

class PlantedFaultTest : public ::testing::TestWithParam<std::tuple<size_t, PlantedForm>> {};

TEST_P(PlantedFaultTest, IsNamedWithCausePlaceAndRemedy) {
  const auto& [index, form] = GetParam();
  const PlantedFault& fault = Faults()[index];
  const TempFolder folder;
  PlantedScene scene;
  fault.plant(&scene, form);
  scene.Write(folder, form);
  const std::string report = CheckReportText(Judged(folder.path()));
  const std::string said = FirstTwoLines(report);
  const bool is_colmap = form == PlantedForm::kColmap;
  for (const std::string& word :
       is_colmap && !fault.words_of_colmap.empty() ? fault.words_of_colmap : fault.words) {
    EXPECT_THAT(said, HasSubstr(word)) << report;
  }
  EXPECT_THAT(said, HasSubstr(is_colmap ? fault.place_of_colmap : fault.place)) << report;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFaultTest,
                         ::testing::Combine(::testing::Range<size_t>(0, 30),
                                            ::testing::Values(PlantedForm::kTransforms,
                                                              PlantedForm::kColmap)),
                         [](const auto& info) {
                           return Faults()[std::get<0>(info.param)].name +
                                  (std::get<1>(info.param) == PlantedForm::kColmap ? "_colmap"
                                                                                   : "_transforms");
                         });

TEST(PlantedSceneTest, WithoutAFaultHasNoWarning) {
  for (const PlantedForm form : {PlantedForm::kTransforms, PlantedForm::kColmap}) {
    for (const bool has_points : {false, true}) {
      const TempFolder folder;
      PlantedScene scene;
      scene.has_points = has_points;
      scene.Write(folder, form);
      const SceneDescription judged = Judged(folder.path());
      EXPECT_TRUE(judged.ok()) << SummaryOf(judged.problems);
      EXPECT_THAT(judged.warnings, IsEmpty());
      EXPECT_EQ(judged.train.size() + judged.test.size(), 12u);
    }
  }
}

// What the scene is warned of beside what is true of it: pictures that are missing, moving frames.
std::vector<std::string> OddWarnings(const SceneDescription& description) {
  std::vector<std::string> odd;
  for (const std::string& warning : description.warnings) {
    if (!absl::StrContains(warning, "17 of 67 listed images do not exist") &&
        !absl::StrContains(warning, "frames have a time")) {
      odd.push_back(warning);
    }
  }
  return odd;
}

TEST(GoodScenesTest, AreNotWarnedOf) {
  std::vector<std::string> folders = {kMic};
  for (const char* name : {"dnerf_lego_400", "drone_5", "fern_4", "fern_8", "fox", "fox_quarter",
                           "lego_200", "lego_400", "mic_200", "mic_800"}) {
    if (const auto folder = TestData(name)) folders.push_back(*folder);
  }
  for (const std::string& folder : folders) {
    const SceneDescription judged = Judged(folder);
    EXPECT_TRUE(judged.ok()) << folder << ": " << SummaryOf(judged.problems);
    EXPECT_THAT(OddWarnings(judged), IsEmpty()) << folder;
    EXPECT_EQ(static_cast<int>(judged.train.size() + judged.test.size()),
              judged.n_listed - judged.n_missing)
        << folder;
  }
  if (folders.size() == 1) GTEST_SKIP() << "NERF_TEST_DATA is not set: examples/mic alone";
}

TEST(GoodScenesTest, ModelOfColmapIsNotWarnedOf) {
  const auto drone = TestData("drone_5");
  if (!drone) GTEST_SKIP() << "NERF_TEST_DATA is not set";
  const TempFolder folder;
  std::filesystem::copy(*drone + "/sparse", folder.PathOf("sparse"),
                        std::filesystem::copy_options::recursive);
  std::filesystem::copy(*drone + "/images", folder.PathOf("images"),
                        std::filesystem::copy_options::recursive);
  const SceneDescription judged = Judged(folder.path());
  EXPECT_TRUE(judged.ok()) << SummaryOf(judged.problems);
  EXPECT_THAT(judged.warnings, IsEmpty());
  EXPECT_EQ(judged.source, "sparse/0 (binary)");
}

}  // namespace
}  // namespace nerf
