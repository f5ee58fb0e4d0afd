// What the judgement of a scene does beside its words (planted_faults_test.cc).
#include "engine/scene/judge/judge_scene.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/scene/judge/judge_cameras.h"
#include "engine/scene/judge/judge_points.h"
#include "engine/scene/read/check_report.h"
#include "engine/scene/read/other_exports.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/scene/looking_at.h"
#include "tests/engine/scene/planted_scene.h"

namespace nerf {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SceneDescription JudgedPlanted(const PlantedScene& scene,
                               PlantedForm form = PlantedForm::kTransforms) {
  const TempFolder folder;
  scene.Write(folder, form);
  SceneOptions options;
  options.to_train = true;
  return DescribeScene(folder.path(), options);
}

bool SameGeometry(const SceneGeometry& a, const SceneGeometry& b) {
  return a.frame == b.frame && a.box == b.box && a.n_levels == b.n_levels;
}

TEST(JudgeSceneTest, StrayIsLeftOutOfTheBox) {
  PlantedScene stray, without;
  stray.shots[5].pose.m[0][3] += 3000;
  without.shots.erase(without.shots.begin() + 5);
  const SceneDescription judged = JudgedPlanted(stray), expected = JudgedPlanted(without);
  ASSERT_TRUE(judged.ok() && expected.ok());
  EXPECT_EQ(judged.train.size() + judged.test.size(), 11u);
  EXPECT_TRUE(SameGeometry(judged.geometry, expected.geometry));
}

TEST(JudgeSceneTest, OneViewOfAModelThatContradictsItsPointsIsLeftOut) {
  PlantedScene scene;
  scene.has_points = true;
  std::swap(scene.shots[2].pose, scene.shots[8].pose);
  const SceneDescription judged = JudgedPlanted(scene, PlantedForm::kColmap);
  ASSERT_TRUE(judged.ok()) << SummaryOf(judged.problems);
  EXPECT_THAT(judged.warnings, Contains(HasSubstr("2 cameras are off the points")));
  EXPECT_THAT(judged.warnings, Contains(HasSubstr("2 left out")));
  EXPECT_EQ(judged.train.size() + judged.test.size(), 10u);
}

ListedViews Listed(const std::vector<Pose>& poses) {
  ListedViews listed;
  for (const Pose& pose : poses) {
    ListedView& view = listed.views.emplace_back();
    view.pose = pose;
    view.file = absl::StrCat(listed.views.size(), ".png");
  }
  return listed;
}

TEST(JudgeSceneTest, CameraFarFromTheOthersIsKeptWhereItsPointsAreRight) {
  PlantedScene scene;
  scene.has_points = true;
  const TempFolder folder;
  scene.Write(folder, PlantedForm::kColmap);
  Problems problems;
  std::vector<std::string> warnings;
  Verdicts verdicts(&problems, &warnings);
  std::vector<Pose> poses;
  for (const PlantedScene::Shot& shot : scene.shots) poses.push_back(shot.pose);
  poses[3].m[1][3] = 9000;
  const ListedViews listed = Listed(poses);
  std::vector<bool> trusted(12, false);
  EXPECT_TRUE(JudgePositions(listed, poses, trusted, &verdicts)[3]);
  trusted[3] = true;
  EXPECT_THAT(JudgePositions(listed, poses, trusted, &verdicts), Each(false));
}

// Around the origin at 2 units, on a turn of a circle.
Vec3d OnCircle(double turn) { return {2 * std::cos(turn), 2 * std::sin(turn), 0.5}; }

// Captures whose cameras stand in clusters, as good ones do.
TEST(JudgeSceneTest, CapturesInClustersAreNeitherRefusedNorCut) {
  std::map<std::string, std::vector<Pose>> captures;
  for (int i = 0; i < 120; ++i) {
    const double jitter = 0.003 * std::sin(i * 1.7);
    captures["tripods"].push_back(LookingAt(OnCircle((i / 40) * 1.2 + jitter), {0, 0, 0}));
    captures["still start"].push_back(
        LookingAt(OnCircle(i < 80 ? jitter : 0.3 + (i - 80) * 0.05), {0, 0, 0}));
    Pose ahead = LookingAt({0, i < 70 ? jitter : 0.5 + (i - 70) * 0.2, 1.5}, {-1e9, 0, 1.5});
    captures["walk ahead"].push_back(ahead);
  }
  for (int i = 0; i < 20; ++i) {
    const Vec3d at = OnCircle(i * 0.31);
    captures["stereo pairs"].push_back(LookingAt(at, {0, 0, 0}));
    captures["stereo pairs"].push_back(LookingAt({at[0] + 0.01, at[1], at[2]}, {0, 0, 0}));
  }
  for (const auto& [name, poses] : captures) {
    Problems problems;
    std::vector<std::string> warnings;
    Verdicts verdicts(&problems, &warnings);
    const std::vector<bool> trusted(poses.size(), false);
    EXPECT_THAT(JudgePositions(Listed(poses), poses, trusted, &verdicts), Each(false)) << name;
    EXPECT_THAT(problems.list(), IsEmpty()) << name;
    EXPECT_THAT(warnings, IsEmpty()) << name;
    // Of the same capture a real stray is still found.
    std::vector<Pose> with_stray = poses;
    with_stray[5].m[2][3] += 8000;
    const std::vector<bool> found = JudgePositions(
        Listed(with_stray), with_stray, std::vector<bool>(poses.size(), false), &verdicts);
    EXPECT_TRUE(found[5]) << name;
  }
}

TEST(JudgeSceneTest, PointsInPixelsOfAnotherSizeSayNothing) {
  std::vector<ListedView> views(4);
  for (ListedView& view : views) {
    view.intrinsics.width = 400;
    view.intrinsics.height = 300;
    view.intrinsics.focal[0] = view.intrinsics.focal[1] = 400;
    for (int i = 0; i < 30; ++i)
      view.seen_points.push_back({{0, 0, -5}, 1000.0f + static_cast<float>(i), 20});
  }
  for (const std::optional<PointError>& error : PointErrors(views)) EXPECT_FALSE(error.has_value());
}

TEST(JudgeSceneTest, NumbersThatAreNoneAreNoError) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  std::vector<ListedView> views(8);
  for (ListedView& view : views) {
    view.intrinsics.width = 400;
    view.intrinsics.height = 300;
    view.intrinsics.focal[0] = 400;
    for (int i = 0; i < 30; ++i) {
      view.seen_points.push_back({{kInfinite, std::nan(""), 1e300}, 200, 150});
      view.seen_points.push_back({{0, 0, 0}, std::nanf(""), 150});
    }
  }
  ListedViews listed;
  listed.views = views;
  Problems problems;
  std::vector<std::string> warnings;
  Verdicts verdicts(&problems, &warnings);
  JudgePoses(PoseConvention::kOpenGl, &listed, &verdicts);
  EXPECT_THAT(problems.list(), IsEmpty());
  ListedViews none;
  JudgePoses(PoseConvention::kOpenGl, &none, &verdicts);
  EXPECT_THAT(problems.list(), IsEmpty());
}

TEST(JudgeSceneTest, FewerThanThreePicturesAreRefusedForTrainingAlone) {
  PlantedScene scene;
  scene.shots.resize(2);
  const TempFolder folder;
  scene.Write(folder, PlantedForm::kTransforms);
  SceneOptions options;
  EXPECT_TRUE(DescribeScene(folder.path(), options).ok());
  options.to_train = true;
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path(), options).problems),
              HasSubstr("transforms.json: frames: 2 pictures are posed and present; at least 3"));
}

TEST(JudgeSceneTest, DynamicMasksLeaveOutWhatIsWhite) {
  PlantedScene scene;
  ImageU8 mask{40, 30, 1, std::vector<uint8_t>(1200, 0)};
  std::fill_n(mask.pixels.begin(), 300, 255);
  for (int i = 0; i < 12; ++i)
    scene.files[absl::StrFormat("images/dynamic_mask_shot_%02d.png", i)] = *EncodePng(mask);
  const TempFolder folder;
  scene.Write(folder, PlantedForm::kTransforms);
  const auto loaded = LoadScene(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->train[0].image.Pixel(5, 2)[3], 0);
  EXPECT_EQ(loaded->train[0].image.Pixel(5, 20)[3], 255);
  EXPECT_THAT(loaded->warnings, Contains(HasSubstr("12 pictures have dynamic masks")));
  EXPECT_THAT(loaded->warnings,
              Contains(HasSubstr("masks leave 75% of the training pictures' pixels; "
                                 "black is what counts")));
}

TEST(JudgeSceneTest, NamesThatOnlyHoldALetterOfAMaskAreNone) {
  for (const auto& [name, is_mask] : {std::pair{"masked_ball.png", false},
                                      {"matterport.png", false},
                                      {"segment_001.png", false},
                                      {"0001_mask.png", true},
                                      {"masks.png", true}}) {
    PlantedScene scene;
    scene.files[name] = *EncodePng({40, 30, 1, std::vector<uint8_t>(1200, 255)});
    const std::vector<std::string> warnings = JudgedPlanted(scene).warnings;
    EXPECT_EQ(warnings.size(), is_mask ? 1u : 0u) << name;
  }
}

TEST(JudgeSceneTest, MasksThatLeaveEverythingAreNotWarnedOf) {
  PlantedScene scene;
  for (const PlantedScene::Shot& shot : scene.shots) {
    scene.files["masks/" + shot.name] = *EncodePng({40, 30, 1, std::vector<uint8_t>(1200, 255)});
  }
  EXPECT_THAT(JudgedPlanted(scene).warnings, IsEmpty());
}

TEST(JudgeSceneTest, PicturesThatAreNotReadAreNamedBeforePosing) {
  const TempFolder folder;
  folder.Write("a.bmp", "BM");
  folder.Write("b.TIFF", "II*");
  EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems),
              HasSubstr("2 pictures such as a.bmp are of a kind that is not read: save as JPEG"));
  EXPECT_FALSE(SourceAt(folder.path()).HasNoPoses());
  folder.Write("c.jpg", "x");
  EXPECT_TRUE(SourceAt(folder.path()).HasNoPoses());
}

TEST(JudgeSceneTest, ListsOfOtherProgramsAreNamedAndNotPosedAnew) {
  struct Case {
    std::string file, content, said;
    bool has_poses = true;
  };
  const Case cases[] = {
      {"sfm_data.json", "{\"sfm_data_version\": \"0.3\"}", "openMVG_main_openMVG2Colmap"},
      {"odometry.csv", "timestamp, frame, x, y, z, qx, qy, qz, qw\n", "Stray Scanner"},
      {"x_calibrated_external_camera_parameters.txt", "imageName X Y Z Omega Phi Kappa\n", "Pix4D"},
      {"transform_train.json", "{\"frames\": [{\"transform_matrix\": []}]}",
       "rename it to transforms_train.json"},
      {"my scene.JSON", "{\"frames\": [{\"transform_matrix\": []}]}",
       "rename it to transforms.json"},
      {"database.db", "SQLite format 3", "colmap mapper", false},
      {"photos.zip", "PK", "unpack it", false},
  };
  for (const Case& c : cases) {
    const TempFolder folder;
    folder.Write("a.jpg", MakeJpeg(8, 8));
    folder.Write(c.file, c.content);
    EXPECT_THAT(SummaryOf(DescribeScene(folder.path()).problems), HasSubstr(c.said));
    EXPECT_EQ(SourceAt(folder.path()).HasNoPoses(), !c.has_poses) << c.file;
  }
}

TEST(CheckInPartTest, DecodesAnEvenChoiceAndEveryFileThatIsCutOff) {
  PlantedScene scene;
  const TempFolder folder;
  scene.Write(folder, PlantedForm::kTransforms);
  SceneOptions options;
  options.test_every = 0;
  options.max_checked_pixels = 4 * 40 * 30;
  std::vector<std::string> said;
  options.on_pictures = [&](std::string_view what, size_t, size_t of) {
    said.push_back(absl::StrCat(std::string(what), " of ", of));
  };
  options.n_threads = 1;
  const SceneDescription good = DescribeScene(folder.path(), options);
  EXPECT_TRUE(good.ok()) << SummaryOf(good.problems);
  EXPECT_EQ(good.n_checked, 4);
  EXPECT_THAT(CheckReportText(good), HasSubstr("12 of 12 images posed and present · 4 of them "
                                               "decoded"));
  EXPECT_THAT(said, Contains("headers of pictures of 12"));
  EXPECT_THAT(said, Contains("pictures of 4"));
  for (const PlantedScene::Shot& shot : scene.shots) {
    const std::string png = ReadFile(folder.PathOf("images/" + shot.name));
    folder.Write("images/" + shot.name, png.substr(0, png.size() - 20));
    EXPECT_THAT(SummaryOf(DescribeScene(folder.path(), options).problems), HasSubstr(shot.name));
    folder.Write("images/" + shot.name, png);
  }
  options.max_checked_pixels = 0;
  EXPECT_EQ(DescribeScene(folder.path(), options).n_checked, 12);
}

}  // namespace
}  // namespace nerf
