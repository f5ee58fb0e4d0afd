// Whole searches with tests/testing/fake_colmap.py in COLMAP's place.
#include "engine/scene/posing/pose_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "common/files/file_io.h"
#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/match_groups.h"
#include "engine/scene/read/scene_reader.h"
#include "nlohmann/json.hpp"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PoseSearchTest : public ::testing::Test {
 protected:
  PoseSearchTest() {
    for (int i = 0; i < 10; ++i) AddPhoto("p" + std::to_string(i) + ".jpg", i);
    options_.colmap = SourceDir() + "/tests/testing/fake_colmap.py";
    options_.pool = &pool_;
    options_.clock = &clock_;
    options_.on_progress = [this](const PoseProgress& p) {
      seen_[p.doing] = p;
      texts_.push_back(PoseProgressText(p));
      if (stages_.empty() || stages_.back() != PoseProgressTitle(p)) {
        stages_.push_back(PoseProgressTitle(p));
      }
    };
    Set("FAKE_COLMAP_LOG", dir_ / "log");
  }
  ~PoseSearchTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  void AddPhoto(const std::string& name, int seed, int blur = 0,
                const std::string& model = "Model A") {
    dir_.Write("in/" + name, WithExif(*EncodeJpeg(TexturedImage(64, 48, seed + 1, blur), 90),
                                      MakeExif({.model = model})));
  }
  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.insert(name);
  }
  absl::StatusOr<PoseReport> Search() { return SearchPoses(dir_ / "in", dir_ / "out", options_); }
  const PhotoOutcome& Of(const PoseReport& report, const std::string& name) {
    for (const PhotoOutcome& photo : report.photos) {
      if (photo.name == name) return photo;
    }
    ADD_FAILURE() << name;
    return report.photos[0];
  }
  // The command lines of one command.
  std::vector<std::string> Lines(const std::string& command) {
    std::vector<std::string> lines;
    std::istringstream log(ReadFile(dir_ / "log", 1 << 20).value_or(""));
    for (std::string line; std::getline(log, line);) {
      if (line.find(command) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }
  // What a failure left behind beside the photographs.
  std::vector<std::string> LeftBehind() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename();
      if (name != "in" && name != "log") names.push_back(name);
    }
    return names;
  }

  TempDir dir_;
  ThreadPool pool_{2};
  FakeClock clock_;
  PoseOptions options_;
  std::map<std::string, PoseProgress> seen_;
  std::vector<std::string> stages_;  // "1/7 reading photographs"
  std::vector<std::string> texts_;
  std::set<std::string> set_;
};

TEST_F(PoseSearchTest, PosedPhotographsBecomeADataSet) {
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 10u);
  EXPECT_EQ(report->colmap_version, "3.8");
  const SceneDescription scene = DescribeScene(dir_ / "out");
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.train.size() + scene.test.size(), 10u);
  const auto json = nlohmann::json::parse(*ReadFile(dir_ / "out/pose.json", 1 << 20));
  EXPECT_EQ(json["posed"], 10);
  EXPECT_EQ(json["out"], "out") << "whoever gets the report gets no folder of this machine";
  EXPECT_THAT(*ReadFile(dir_ / "out/pose.txt", 1 << 20),
              HasSubstr("posed, by their number in pose.png:\n     1  p0.jpg\n     2  p1.jpg\n"));
  EXPECT_THAT(DecodeImage(dir_ / "out/pose.png"), IsOk());
  EXPECT_EQ(seen_["extracting features"].of, 10);
  EXPECT_EQ(seen_["placing cameras"].done, 10);
  EXPECT_THAT(LeftBehind(), ElementsAre("out"));
  std::set<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "out")) {
    kept.insert(entry.path().filename());
  }
  EXPECT_THAT(kept, ElementsAre("images", "pose.json", "pose.png", "pose.txt", "sparse"));
}

TEST_F(PoseSearchTest, MasksAreForColmapAndForTheScene) {
  ImageU8 mask{64, 48, 1, std::vector<uint8_t>(64 * 48, 255)};
  mask.pixels[0] = 0;
  dir_.Write("in/masks/p3.png", *EncodePng(mask));
  ASSERT_THAT(Search(), IsOk());
  const auto extractions = Lines("feature_extractor");
  ASSERT_EQ(extractions.size(), 2u);
  for (const std::string& line : extractions) EXPECT_THAT(line, HasSubstr("ImageReader.mask_path"));
  const SceneDescription scene = DescribeScene(dir_ / "out");
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  for (const auto* views : {&scene.train, &scene.test}) {
    for (const ViewDescription& view : *views)
      EXPECT_EQ(view.mask_file, view.file == "images/p3.jpg" ? "masks/p3.jpg.png" : "");
  }
  dir_.Write("in/masks/p4.png", "no picture");
  std::filesystem::remove_all(dir_ / "out");
  EXPECT_THAT(Search().status(), StatusIs(absl::StatusCode::kInvalidArgument, "masks/p4.png: "));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

// The ring of the stand-in's cameras has no two faces in agreement: what counts is what it is
// asked.
TEST_F(PoseSearchTest, PanoramasArePosedByTheirFaces) {
  std::filesystem::remove_all(dir_ / "in");
  for (int i = 0; i < 4; ++i) {
    dir_.Write("in/p" + std::to_string(i) + ".jpg",
               *EncodeJpeg(TexturedImage(128, 64, static_cast<uint32_t>(i) + 1), 90));
  }
  dir_.Write("in/phone.jpg", *EncodeJpeg(TexturedImage(64, 48, 9), 90));
  options_.camera = CameraKind::kEquirectangular;
  options_.mask_below = 60;
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 4u);
  EXPECT_EQ(Of(*report, "phone.jpg").reason, "unreadable");
  EXPECT_THAT(stages_, Contains("2/8 cutting panoramas"));
  EXPECT_EQ(seen_["extracting features"].of, 4 * kPanoramaFaces);
  const auto extractions = Lines("feature_extractor");
  ASSERT_EQ(extractions.size(), 2u * kPanoramaFaces) << "each face is a camera";
  EXPECT_THAT(extractions[0], HasSubstr("\"--ImageReader.camera_model\", \"PINHOLE\""));
  EXPECT_THAT(extractions[0], HasSubstr("\"20.5,20.5,20.5,20.5\""));
  EXPECT_THAT(extractions[0], HasSubstr("ImageReader.mask_path"));
  EXPECT_THAT(Lines("exhaustive_matcher"), IsEmpty()) << "faces of one panorama show no depth";
  EXPECT_EQ(Lines("rig_bundle_adjuster").size(), 1u);
  const SceneDescription scene = DescribeScene(dir_ / "out");
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_THAT(scene.camera_models, ElementsAre("EQUIRECTANGULAR 128x64"));
  ASSERT_EQ(scene.train.size() + scene.test.size(), 4u);
  EXPECT_EQ(scene.train[0].mask_file, "masks/p1.jpg.png");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/images/phone.jpg"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/faces"));
}

TEST_F(PoseSearchTest, FewFeaturesFindThePairsThatAllFeaturesMatch) {
  ASSERT_THAT(Search(), IsOk());
  const auto extractions = Lines("feature_extractor");
  ASSERT_EQ(extractions.size(), 2u);
  EXPECT_THAT(extractions[0], HasSubstr("\"--SiftExtraction.max_num_features\", \"512\""));
  EXPECT_EQ(Lines("exhaustive_matcher").size(), 1u);
  EXPECT_EQ(Lines("matches_importer").size(), 2u) << "lists of up to 32 of 45 pairs";
}

TEST_F(PoseSearchTest, StagesAreNumbered) {
  ASSERT_THAT(Search(), IsOk());
  EXPECT_THAT(stages_,
              ElementsAre("1/7 reading photographs", "2/7 extracting coarse features",
                          "3/7 matching coarse features of all pairs", "4/7 extracting features",
                          "5/7 matching features of overlapping pairs", "6/7 placing cameras",
                          "7/7 refining cameras"));
}

// The importer says nothing between two pairs, so it gets lists of some.
TEST_F(PoseSearchTest, EachStageCountsPhotographs) {
  ASSERT_THAT(Search(), IsOk());
  EXPECT_THAT(texts_, testing::Contains(HasSubstr(
                          "5/7 matching features of overlapping pairs: 7 of 10 photographs")));
  EXPECT_THAT(texts_, testing::Contains(HasSubstr(
                          "5/7 matching features of overlapping pairs: 10 of 10 photographs")));
  EXPECT_THAT(texts_, testing::Contains(HasSubstr("6/7 placing cameras: 10 of 10 photographs")));
  EXPECT_THAT(texts_, testing::Contains(HasSubstr("7/7 refining cameras: 1 of 100 iterations")));
}

TEST_F(PoseSearchTest, WhatIsPlacedIsShownBeforeAllIs) {
  std::set<size_t> n_cameras;
  options_.on_progress = [&](const PoseProgress& progress) {
    if (progress.doing == "placing cameras") n_cameras.insert(progress.sketch.cameras.size() / 3);
  };
  ASSERT_THAT(Search(), IsOk());
  EXPECT_EQ(*n_cameras.begin(), 0u);
  EXPECT_EQ(*n_cameras.rbegin(), 10u);
  EXPECT_THAT(LeftBehind(), ElementsAre("out"));
}

// Two efforts fail to pose enough of the photographs; the numbers go on.
TEST_F(PoseSearchTest, HarderEffortsAddStagesAndSayWhy) {
  Set("FAKE_COLMAP_APART", "p3.jpg,p4.jpg,p5.jpg");
  ASSERT_THAT(Search(), IsOk());
  stages_.erase(stages_.begin(), stages_.begin() + 5);
  EXPECT_THAT(stages_, ElementsAre("6/7 placing cameras",
                                   "7/9 matching features of all pairs (7 of 10 posed so far)",
                                   "8/9 placing cameras",
                                   "9/12 extracting more features (7 of 10 posed so far)",
                                   "10/12 matching features of all pairs", "11/12 placing cameras",
                                   "12/12 refining cameras"));
}

TEST_F(PoseSearchTest, NewerVersionIsCalledByItsFlags) {
  Set("FAKE_COLMAP_VERSION", "3.12");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->colmap_version, "3.12");
  EXPECT_EQ(seen_["matching coarse features of all pairs"].of, 10);
  EXPECT_EQ(seen_["matching coarse features of all pairs"].done, 10);
  EXPECT_EQ(seen_["placing cameras"].done, 10);
}

TEST_F(PoseSearchTest, LargestModelCountsAndTheOtherIsAnotherPlace) {
  Set("FAKE_COLMAP_APART", "p3.jpg,p4.jpg,p5.jpg");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 7u);
  EXPECT_THAT(texts_, testing::Contains(HasSubstr("6/7 placing cameras: 7 of 10 photographs")));
  EXPECT_EQ(report->n_other_models, 1u);
  EXPECT_EQ(Of(*report, "p4.jpg").reason, "another place");
  EXPECT_EQ(Lines("mapper").size(), 3u);  // every effort was made
}

// Matches of coarse features tell the places apart: harder efforts get no more than the patience.
TEST_F(PoseSearchTest, PatienceWithPhotographsOfSeveralPlacesEnds) {
  options_.patience = absl::ZeroDuration();
  Set("FAKE_COLMAP_APART", "p3.jpg,p4.jpg,p5.jpg");
  auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 7u);
  EXPECT_EQ(Of(*report, "p4.jpg").reason, "another place");
  EXPECT_EQ(Lines("mapper").size(), 1u);
  // Those that share enough with the others are worth every effort.
  std::filesystem::remove_all(dir_ / "out");
  Set("FAKE_COLMAP_APART", "");
  Set("FAKE_COLMAP_HARD", "p0.jpg,p1.jpg");
  report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 10u);
}

// An effort that the patience allowed takes longer than it seemed: what was found before counts.
TEST_F(PoseSearchTest, EffortThatTakesTooLongIsGivenUp) {
  options_.patience = absl::Seconds(2);
  Set("FAKE_COLMAP_APART", "p3.jpg,p4.jpg,p5.jpg");
  Set("FAKE_COLMAP_FAIL", "mapper:hang_relaxed");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 7u);
}

TEST_F(PoseSearchTest, HarderEffortFollowsWhereTooFewArePosed) {
  Set("FAKE_COLMAP_HARD", "p0.jpg,p1.jpg");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 10u);
  EXPECT_EQ(Lines("mapper").size(), 2u);
}

TEST_F(PoseSearchTest, EnoughIsEnough) {
  Set("FAKE_COLMAP_HARD", "p0.jpg");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 9u);
  EXPECT_EQ(Lines("mapper").size(), 1u);
}

TEST_F(PoseSearchTest, EachMissingPhotographHasItsReason) {
  AddPhoto("blurred.jpg", 50, /*blur=*/6);
  AddPhoto("lens.jpg", 51, 0, "Model B");
  AddPhoto("lonely.jpg", 52);
  AddPhoto("p_again.jpg", 3);
  dir_.Write("in/broken.jpg", "\xff\xd8 no picture");
  Set("FAKE_COLMAP_UNPOSED", "blurred.jpg,lens.jpg,lonely.jpg");
  options_.min_posed_share = 0.8;
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 10u);
  EXPECT_EQ(report->n_usable, 12u);
  EXPECT_EQ(Of(*report, "blurred.jpg").reason, "blur");
  EXPECT_EQ(Of(*report, "lens.jpg").reason, "another lens");
  EXPECT_EQ(Of(*report, "lonely.jpg").reason, "no overlap");
  EXPECT_EQ(Of(*report, "p_again.jpg").reason, "double");
  EXPECT_EQ(Of(*report, "broken.jpg").reason, "unreadable");
  const std::string text = *ReadFile(dir_ / "out/pose.txt", 1 << 20);
  EXPECT_THAT(text, AllOf(HasSubstr("10 of 15 photographs posed"), HasSubstr("a double of p3.jpg"),
                          HasSubstr("photograph again:")));
  // One run of extraction a lens.
  EXPECT_EQ(Lines("feature_extractor").size(), 4u);
}

// Ten blurred photographs and five of another place among 20 good ones: each is named with its own
// reason, and none of them fails the others.
TEST_F(PoseSearchTest, TenBlurredAndFiveOfAnotherPlaceAreNamed) {
  std::string blurred, elsewhere;
  for (int i = 10; i < 20; ++i) AddPhoto("p" + std::to_string(i) + ".jpg", i);
  for (int i = 0; i < 10; ++i) {
    const std::string name = "blurred" + std::to_string(i) + ".jpg";
    AddPhoto(name, 50 + i, /*blur=*/6);
    blurred += name + ",";
  }
  for (int i = 0; i < 5; ++i) {
    const std::string name = "elsewhere" + std::to_string(i) + ".jpg";
    AddPhoto(name, 70 + i);
    elsewhere += name + ",";
  }
  Set("FAKE_COLMAP_UNPOSED", blurred);
  Set("FAKE_COLMAP_APART", elsewhere);
  options_.min_posed_share = 0.8;
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 20u);
  EXPECT_EQ(report->n_usable, 25u);
  const std::string text = *ReadFile(dir_ / "out/pose.txt", 1 << 20);
  for (int i = 0; i < 10; ++i) {
    const std::string name = "blurred" + std::to_string(i) + ".jpg";
    EXPECT_EQ(Of(*report, name).reason, "blur") << name;
    EXPECT_THAT(text, HasSubstr(name));
  }
  for (int i = 0; i < 5; ++i) {
    const std::string name = "elsewhere" + std::to_string(i) + ".jpg";
    EXPECT_EQ(Of(*report, name).reason, "another place") << name;
    EXPECT_THAT(text, HasSubstr(name));
  }
}

TEST_F(PoseSearchTest, PhotographsOfTwoLensesHaveACameraEach) {
  for (int i = 0; i < 6; ++i) AddPhoto("wide" + std::to_string(i) + ".jpg", 30 + i, 0, "Model B");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 16u);
  // cameras.bin begins with the number of cameras.
  EXPECT_EQ(ReadFile(dir_ / "out/sparse/0/cameras.bin", 1 << 20)->at(0), 2);
  EXPECT_EQ(Lines("feature_extractor").size(), 4u);  // few and all features of each lens
}

TEST_F(PoseSearchTest, FewPhotographsOfALensHaveASimpleOne) {
  for (int i = 0; i < 4; ++i) AddPhoto("wide" + std::to_string(i) + ".jpg", 30 + i, 0, "Model B");
  ASSERT_THAT(Search(), IsOk());
  EXPECT_EQ(Lines("\"--ImageReader.camera_model\", \"OPENCV\"").size(), 2u);
  EXPECT_EQ(Lines("\"--ImageReader.camera_model\", \"SIMPLE_RADIAL\"").size(), 2u);
}

TEST_F(PoseSearchTest, BlurredPhotographsThatArePosedAreWarnedOf) {
  AddPhoto("blurred.jpg", 50, /*blur=*/6);
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 11u);
  EXPECT_EQ(report->n_usable, 10u) << "it does not count for the share";
  EXPECT_THAT(report->warnings, Contains(HasSubstr("blurred.jpg is posed, but blurred")));
}

TEST_F(PoseSearchTest, SetsOfBlurredPhotographsAloneArePosed) {
  std::filesystem::remove_all(dir_ / "in");
  for (int i = 0; i < 6; ++i) AddPhoto("p" + std::to_string(i) + ".jpg", i, /*blur=*/3);
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 6u);
}

TEST_F(PoseSearchTest, OtherVersionIsRefusedBeforeAnythingIsDone) {
  Set("FAKE_COLMAP_VERSION", "9.9");
  EXPECT_THAT(Search(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 "COLMAP 9.9 has neither --SiftExtraction.use_gpu nor"));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

// COLMAP ends in the middle of its database.
TEST_F(PoseSearchTest, DamagedDatabaseFailsAndLeavesNothing) {
  // 28 pairs: another list would be matched in the damaged database.
  for (const char* photo : {"in/p8.jpg", "in/p9.jpg"}) std::filesystem::remove(dir_ / photo);
  for (const char* command : {"exhaustive_matcher:scribble", "matches_importer:scribble"}) {
    Set("FAKE_COLMAP_FAIL", command);
    EXPECT_THAT(Search(), StatusIs(absl::StatusCode::kDataLoss)) << command;
    EXPECT_THAT(LeftBehind(), IsEmpty());
  }
}

TEST_F(PoseSearchTest, NothingPosedIsAReportWithoutAModel) {
  std::string all = "p0.jpg";
  for (int i = 1; i < 10; ++i) all += ",p" + std::to_string(i) + ".jpg";
  Set("FAKE_COLMAP_UNPOSED", all);
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 0u);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/sparse"));
  EXPECT_THAT(*ReadFile(dir_ / "out/pose.txt", 1 << 20),
              AllOf(HasSubstr("0 of 10 photographs posed"),
                    HasSubstr("photograph again:\n  everything, closer together")));
}

// How COLMAP may end in each of its commands: the right code, and nothing left behind.
TEST_F(PoseSearchTest, PhotographsOfOneSpotEndBeforeTheMapperAndSayMove) {
  Set("FAKE_COLMAP_TURNED", "1");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 0u);
  ASSERT_EQ(report->again.size(), 1u);
  EXPECT_THAT(report->again[0], HasSubstr("move between photographs"));
  for (const PhotoOutcome& photo : report->photos)
    EXPECT_EQ(photo.reason, "one spot") << photo.name;
  EXPECT_TRUE(Lines("mapper").empty());
  EXPECT_EQ(Lines("feature_extractor").size(), 1u);
}

TEST_F(PoseSearchTest, WallPhotographedFromSeveralPlacesIsPosed) {
  Set("FAKE_COLMAP_TURNED", "flat");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 10u);
}

TEST_F(PoseSearchTest, FailuresOfEachCommandLeaveNothingBehind) {
  const std::map<std::string, absl::StatusCode> codes = {
      {"feature_extractor:killed", absl::StatusCode::kResourceExhausted},
      {"feature_extractor:abort", absl::StatusCode::kAborted},
      {"feature_extractor:disk_full", absl::StatusCode::kResourceExhausted},
      {"exhaustive_matcher:killed", absl::StatusCode::kResourceExhausted},
      {"exhaustive_matcher:disk_full", absl::StatusCode::kResourceExhausted},
      {"matches_importer:killed", absl::StatusCode::kResourceExhausted},
      {"matches_importer:disk_full", absl::StatusCode::kResourceExhausted},
      {"mapper:no_memory", absl::StatusCode::kResourceExhausted},
      {"mapper:abort", absl::StatusCode::kAborted},
      {"mapper:disk_full", absl::StatusCode::kResourceExhausted},
      {"bundle_adjuster:disk_full", absl::StatusCode::kResourceExhausted},
      {"bundle_adjuster:killed", absl::StatusCode::kResourceExhausted}};
  for (const auto& [failure, code] : codes) {
    Set("FAKE_COLMAP_FAIL", failure);
    EXPECT_THAT(Search(), StatusIs(code)) << failure;
    EXPECT_THAT(LeftBehind(), IsEmpty()) << failure;
  }
}

TEST_F(PoseSearchTest, FoldersAboveTheOutputAreMadeAndLeaveWithAFailure) {
  const auto search = [this] { return SearchPoses(dir_ / "in", dir_ / "new/deep/out", options_); };
  Set("FAKE_COLMAP_FAIL", "mapper:abort");
  EXPECT_THAT(search(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(LeftBehind(), IsEmpty());
  Set("FAKE_COLMAP_FAIL", "");
  EXPECT_THAT(search(), IsOk());
  EXPECT_TRUE(std::filesystem::exists(dir_ / "new/deep/out/pose.txt"));
}

TEST_F(PoseSearchTest, CommandThatHangsEndsAtTheLimit) {
  Set("FAKE_COLMAP_FAIL", "mapper:hang");
  options_.time_limit = absl::Seconds(2);
  EXPECT_THAT(Search(), StatusIs(absl::StatusCode::kDeadlineExceeded, "placing cameras"));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_F(PoseSearchTest, StopEndsTheCommandAndLeavesNothing) {
  Set("FAKE_COLMAP_FAIL", "exhaustive_matcher:hang");
  std::stop_source source;
  options_.stop = source.get_token();
  options_.on_progress = [&](const PoseProgress& progress) {
    if (progress.doing == "matching coarse features of all pairs") source.request_stop();
  };
  EXPECT_THAT(Search(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_F(PoseSearchTest, CommandThatWroteNothingIsNoSuccess) {
  Set("FAKE_COLMAP_FAIL", "feature_extractor:nothing");
  EXPECT_FALSE(Search().ok());
  EXPECT_THAT(LeftBehind(), IsEmpty());
  Set("FAKE_COLMAP_FAIL", "bundle_adjuster:nothing");
  EXPECT_THAT(Search(), IsOk());  // the model from before the adjustment is used
}

TEST_F(PoseSearchTest, DamagedModelCountsAsNone) {
  Set("FAKE_COLMAP_FAIL", "mapper:damaged");
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 0u);
}

TEST_F(PoseSearchTest, FolderThatHoldsSomethingIsNotTouched) {
  dir_.Write("out/mine.txt", "x");
  EXPECT_THAT(Search(), StatusIs(absl::StatusCode::kFailedPrecondition, "no empty folder"));
  EXPECT_EQ(*ReadFile(dir_ / "out/mine.txt", 10), "x");
  EXPECT_THAT(Lines(""), IsEmpty());
}

TEST_F(PoseSearchTest, EmptyFolderIsFilled) {
  std::filesystem::create_directories(dir_ / "out");
  EXPECT_THAT(Search(), IsOk());
}

TEST_F(PoseSearchTest, TwoPhotographsAreTooFew) {
  std::filesystem::remove_all(dir_ / "in");
  AddPhoto("a.jpg", 1);
  AddPhoto("b.jpg", 2);
  AddPhoto("c.jpg", 2);
  const auto report = Search();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 0u);
  EXPECT_EQ(Of(*report, "a.jpg").reason, "too few");
  EXPECT_EQ(Of(*report, "c.jpg").reason, "double");
  EXPECT_THAT(report->again[0], HasSubstr("2 different photographs that can be read; at least 3"));
  EXPECT_THAT(Lines("feature_extractor"), IsEmpty());
}

TEST_F(PoseSearchTest, AbsentColmapIsSaidBeforeAnythingIsDone) {
  options_.colmap = "/no/such/colmap";
  EXPECT_THAT(Search(), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST(LargestGroupTest, PairsLeadFromOneToTheOther) {
  const std::vector<ColmapPair> pairs = {
      {"a", "b", 9}, {"c", "b", 9}, {"d", "e", 9}, {"f", "a", 9}};
  EXPECT_EQ(LargestGroup(pairs, {"a", "b", "c", "d", "e", "f", "g"}), 4u);
  EXPECT_EQ(LargestGroup(pairs, {"a", "d", "e"}), 2u);
  EXPECT_EQ(LargestGroup({}, {"a", "b"}), 1u);
  EXPECT_EQ(LargestGroup(pairs, {}), 0u);
}

TEST(StrongestPairsTest, EachPhotographKeepsItsBest) {
  const std::vector<ColmapPair> pairs = {
      {"a", "b", 100}, {"a", "c", 50}, {"b", "c", 90}, {"c", "d", 16}};
  const auto strongest = StrongestPairs(pairs, 1);
  ASSERT_EQ(strongest.size(), 3u);
  EXPECT_EQ(strongest[0].n_inliers, 100u);
  EXPECT_EQ(strongest[1].n_inliers, 90u);
  EXPECT_EQ(strongest[2].second, "d");
  EXPECT_EQ(StrongestPairs(pairs, 0).size(), 4u);
}

}  // namespace
}  // namespace nerf
