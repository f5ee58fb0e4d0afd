// Photographs added to posed scenes, with tests/testing/fake_colmap.py in COLMAP's place: it puts
// the k-th new one at (k, 0, -3) and then shifts and scales the whole model, as COLMAP does.
#include "engine/scene/posing/scene_addition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/files/file_io.h"
#include "engine/scene/pictures/exif.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/pose_search.h"
#include "engine/scene/read/scene_reader.h"
#include "nlohmann/json.hpp"
#include "tests/engine/scene/posing/pose_fixture.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SceneAdditionTest : public ::testing::Test {
 protected:
  SceneAdditionTest() {
    options_.colmap = SourceDir() + "/tests/testing/fake_colmap.py";
    options_.pool = &pool_;
    options_.clock = &clock_;
    setenv("FAKE_COLMAP_LOG", (dir_ / "log").c_str(), 1);
  }
  ~SceneAdditionTest() override {
    unsetenv("FAKE_COLMAP_LOG");
    unsetenv("FAKE_COLMAP_UNPOSED");
    unsetenv("FAKE_COLMAP_FAIL");
  }

  void AddPhoto(const std::string& file, int seed, const std::string& model = "Model A") {
    dir_.Write(file, WithExif(*EncodeJpeg(TexturedImage(64, 48, static_cast<uint32_t>(seed)), 90),
                              MakeExif({.model = model})));
  }

  // Five photographs of a lens, on a line, in nerfstudio's layout.
  nlohmann::json WriteOldTransforms() {
    nlohmann::json json = {{"fl_x", 60.5},
                           {"cx", 31.0},
                           {"cy", 24.25},
                           {"w", 64},
                           {"h", 48},
                           {"k1", 0.125},
                           {"frames", nlohmann::json::array()}};
    for (int i = 0; i < 5; ++i) {
      const std::string file = "images/old" + std::to_string(i) + ".jpg";
      AddPhoto("old/" + file, 100 + i);
      json["frames"].push_back(
          {{"file_path", file},
           {"transform_matrix",
            {{1, 0, 0, 0.1 + i / 3.0}, {0, 1, 0, 0.01 * i * i}, {0, 0, 1, 4}, {0, 0, 0, 1}}}});
    }
    dir_.Write("old/transforms.json", json.dump());
    return json;
  }

  absl::StatusOr<PoseReport> Add() {
    return AddPhotographs(dir_ / "in", dir_ / "old", dir_ / "out", options_);
  }
  std::string Log() { return ReadFile(dir_ / "log", 1 << 20).value_or(""); }

  TempDir dir_;
  ThreadPool pool_{2};
  FakeClock clock_;
  PoseOptions options_;
};

TEST_F(SceneAdditionTest, LensesThatColmapDoesNotTakeAreNamedBeforeItRuns) {
  AddPhoto("in/new0.jpg", 1);
  const nlohmann::json good = WriteOldTransforms();
  const auto refused = [&](const char* field, double value) {
    nlohmann::json json = good;
    json[field] = value;
    dir_.Write("old/transforms.json", json.dump());
    EXPECT_THAT(Add(), StatusIs(StatusCode::kInvalidArgument,
                                std::string("images/old1.jpg: ") + field + " is "))
        << field;
  };
  refused("k1", 90);
  refused("k2", -1.5);
  refused("p1", 2);
  refused("fl_x", 6);
  refused("fl_y", 9000);
  refused("cx", -1);
  refused("cy", 49);
  EXPECT_THAT(Log(), ::testing::Not(HasSubstr("feature_extractor")));
}

TEST_F(SceneAdditionTest, CamerasInOnePlaceAreRefusedAndTinyOnesAreScaledForColmap) {
  AddPhoto("in/new0.jpg", 1);
  const nlohmann::json good = WriteOldTransforms();
  for (const double scale : {0.0, 1e-12}) {
    nlohmann::json json = good;
    for (nlohmann::json& frame : json["frames"]) {
      for (int i = 0; i < 3; ++i) {
        nlohmann::json& x = frame["transform_matrix"][i][3];
        x = 1 + scale * x.get<double>();
      }
    }
    dir_.Write("old/transforms.json", json.dump());
    EXPECT_THAT(Add(), StatusIs(StatusCode::kInvalidArgument, "all have the same position"));
  }
  EXPECT_THAT(Log(), ::testing::Not(HasSubstr("feature_extractor")));
  nlohmann::json tiny = good;
  for (nlohmann::json& frame : tiny["frames"]) {
    for (int i = 0; i < 3; ++i) {
      nlohmann::json& x = frame["transform_matrix"][i][3];
      x = 1e-6 * x.get<double>();
    }
  }
  dir_.Write("old/transforms.json", tiny.dump());
  EXPECT_THAT(Add(), IsOk());
}

// Of repeated positions and of lenses that are not the pictures'.
TEST_F(SceneAdditionTest, PosesThatDoNotFitThePicturesAreSaidNotACrash) {
  AddPhoto("in/new0.jpg", 1);
  WriteOldTransforms();
  setenv("FAKE_COLMAP_FAIL", "point_triangulator:no_points", 1);
  EXPECT_THAT(Add(), StatusIs(StatusCode::kInvalidArgument, "do not fit its pictures"));
  setenv("FAKE_COLMAP_FAIL", "point_triangulator:abort", 1);
  EXPECT_THAT(Add(), StatusIs(StatusCode::kAborted));
}

// The numbers of `frames` as an added photograph's center.
void ExpectAt(const nlohmann::json& frame, double x) {
  const nlohmann::json& rows = frame["transform_matrix"];
  EXPECT_NEAR(rows[0][3].get<double>(), x, 1e-5) << frame;
  EXPECT_NEAR(rows[1][3].get<double>(), 0, 1e-5);
  EXPECT_NEAR(rows[2][3].get<double>(), -3, 1e-5);
  // COLMAP's axes have y down and z forwards.
  EXPECT_NEAR(rows[1][1].get<double>(), -1, 1e-9);
  EXPECT_NEAR(rows[2][2].get<double>(), -1, 1e-9);
}

TEST_F(SceneAdditionTest, TransformsKeepTheirFramesAndGetMore) {
  const nlohmann::json old = WriteOldTransforms();
  AddPhoto("in/new0.jpg", 1);
  AddPhoto("in/old3.jpg", 2);  // another picture of a name that is there
  dir_.Write("in/masks/old3.png", *EncodePng({64, 48, 1, std::vector<uint8_t>(64 * 48, 255)}));
  AddPhoto("in/same.jpg", 104);
  AddPhoto("in/zoom.jpg", 4, "Model B");
  const auto report = Add();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 3u);
  EXPECT_EQ(report->photos.size(), 4u) << "the new ones alone";
  EXPECT_EQ(report->photos[2].reason, "double");
  const auto json = nlohmann::json::parse(*ReadFile(dir_ / "out/transforms.json", 1 << 20));
  ASSERT_EQ(json["frames"].size(), 8u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(json["frames"][i], old["frames"][i]);
  EXPECT_EQ(json["fl_x"], 60.5);
  EXPECT_EQ(json["frames"][5]["file_path"], "images/new0.jpg");
  EXPECT_FALSE(json["frames"][5].contains("fl_x")) << "it has the file's lens";
  EXPECT_EQ(json["frames"][6]["file_path"], "images/2_old3.jpg");
  EXPECT_TRUE(std::filesystem::exists(dir_ / "out/masks/2_old3.jpg.png"));
  EXPECT_THAT(Log(), HasSubstr("ImageReader.mask_path"));
  EXPECT_EQ(json["frames"][7]["fl_x"], 61) << "its lens was found";
  for (size_t i = 5; i < 8; ++i) ExpectAt(json["frames"][i], static_cast<double>(i - 5));
  EXPECT_THAT(Log(), HasSubstr("\"60.5,60.5,31,24.25,0.125,0,0,0\""));

  const SceneDescription before = DescribeScene(dir_ / "old"), after = DescribeScene(dir_ / "out");
  ASSERT_TRUE(after.ok()) << SummaryOf(after.problems);
  EXPECT_EQ(after.geometry.box, before.geometry.box);
  EXPECT_EQ(after.geometry.n_levels, before.geometry.n_levels);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_NEAR(after.geometry.frame.own_to_training.m[i][j],
                  before.geometry.frame.own_to_training.m[i][j], 1e-5);
    }
  }
  EXPECT_THAT(after.list_files, ElementsAre("transforms.json", "placement.json"));
  EXPECT_EQ(*ReadFile(dir_ / "out/images/old2.jpg", 1 << 20),
            *ReadFile(dir_ / "old/images/old2.jpg", 1 << 20));
  for (const char* gone : {"copies", "few.db", "known", "images/same.jpg"})
    EXPECT_FALSE(std::filesystem::exists(dir_ / ("out/" + std::string(gone)))) << gone;
}

TEST_F(SceneAdditionTest, NewNameThatAnotherOneHadLosesNone) {
  nlohmann::json json = WriteOldTransforms();
  std::filesystem::rename(dir_ / "old/images/old3.jpg", dir_ / "old/images/1.jpg");
  json["frames"][3]["file_path"] = "images/1.jpg";
  dir_.Write("old/transforms.json", json.dump());
  AddPhoto("in/1.jpg", 1);
  AddPhoto("in/2_1.jpg", 2);
  const auto report = Add();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 2u);
  const auto content = [&](const std::string& file) { return *ReadFile(dir_ / file, 1 << 20); };
  EXPECT_EQ(content("out/images/2_1.jpg"), content("in/1.jpg"));
  EXPECT_EQ(content("out/images/2_2_1.jpg"), content("in/2_1.jpg"));
}

TEST_F(SceneAdditionTest, MasksOfTheSceneAreNotThoseOfNewNamesakes) {
  nlohmann::json json = WriteOldTransforms();
  std::filesystem::rename(dir_ / "old/images/old3.jpg", dir_ / "old/images/new1.jpg.jpg");
  json["frames"][3]["file_path"] = "images/new1.jpg.jpg";
  dir_.Write("old/transforms.json", json.dump());
  const std::string mask = *EncodePng({64, 48, 1, std::vector<uint8_t>(64 * 48, 255)});
  dir_.Write("old/masks/old0.png", mask);
  dir_.Write("in/old0.png", *EncodePng(TexturedImage(64, 48, 1)));
  AddPhoto("in/new1.jpg", 2);
  dir_.Write("in/masks/new1.png", mask);
  ASSERT_THAT(Add(), IsOk());
  const SceneDescription scene = DescribeScene(dir_ / "out");
  ASSERT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  std::map<std::string, std::string> mask_of;
  for (const auto* views : {&scene.train, &scene.test}) {
    for (const ViewDescription& view : *views) mask_of[view.file] = view.mask_file;
  }
  EXPECT_EQ(mask_of.at("images/old0.jpg"), "masks/old0.png");
  EXPECT_EQ(mask_of.at("images/2_old0.png"), "") << "it was sent without a mask";
  EXPECT_EQ(mask_of.at("images/2_new1.jpg"), "masks/2_new1.jpg.png");
  EXPECT_EQ(mask_of.at("images/new1.jpg.jpg"), "") << "the mask is of the new one";
}

TEST_F(SceneAdditionTest, ModelOfColmapKeepsItsPosesToTheLastDigit) {
  for (int i = 0; i < 6; ++i) AddPhoto("photos/p" + std::to_string(i) + ".jpg", 100 + i);
  ASSERT_THAT(SearchPoses(dir_ / "photos", dir_ / "old", options_), IsOk());
  AddPhoto("in/a.jpg", 1);
  AddPhoto("in/b.jpg", 2);
  ASSERT_THAT(Add(), IsOk());
  const auto before = ReadModelFiles(dir_ / "old/sparse/0");
  const auto after = ReadModelFiles(dir_ / "out/sparse/0");
  ASSERT_THAT(after, IsOk());
  ASSERT_EQ(after->images.size(), 8u);
  for (size_t i = 0; i < before->images.size(); ++i) {
    const ColmapImage &was = before->images[i], &is = after->images[i];
    EXPECT_EQ(is.name, was.name);
    EXPECT_EQ(is.id, was.id);
    for (int j = 0; j < 4; ++j) EXPECT_EQ(is.rotation[j], was.rotation[j]);
    for (int j = 0; j < 3; ++j) EXPECT_EQ(is.translation[j], was.translation[j]);
  }
  EXPECT_EQ(after->cameras.size(), before->cameras.size());
  const auto model = ReadPosedModel(dir_ / "out/sparse/0");
  EXPECT_NEAR(model->photos.at("b.jpg").center[0], 1, 1e-6);
  EXPECT_NEAR(model->photos.at("b.jpg").center[2], -3, 1e-6);
  EXPECT_EQ(model->points.size(), 250u) << "the old ones and those that new photographs show";
  EXPECT_NEAR(model->points.back().position[0], 0.49, 1e-6);
  const SceneDescription scene = DescribeScene(dir_ / "out");
  EXPECT_TRUE(scene.ok()) << SummaryOf(scene.problems);
  EXPECT_EQ(scene.train.size() + scene.test.size(), 8u);
  EXPECT_NEAR(scene.geometry.frame.scale, DescribeScene(dir_ / "old").geometry.frame.scale, 1e-5);
}

TEST_F(SceneAdditionTest, UnposedOnesAreSaidAndTriedHarder) {
  WriteOldTransforms();
  AddPhoto("in/a.jpg", 1);
  AddPhoto("in/b.jpg", 2);
  setenv("FAKE_COLMAP_UNPOSED", "n000006.jpg", 1);
  const auto report = Add();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->n_posed, 1u);
  EXPECT_EQ(report->photos[1].reason, "no overlap");
  EXPECT_THAT(Log(), HasSubstr("Mapper.abs_pose_min_num_inliers"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/images/b.jpg"));
  EXPECT_EQ(DescribeScene(dir_ / "out").n_listed, 6);
}

TEST_F(SceneAdditionTest, WhatCannotBeAddedToIsNamedAndNothingIsLeft) {
  AddPhoto("in/a.jpg", 1);
  EXPECT_THAT(Add(), StatusIs(StatusCode::kInvalidArgument, "is no posed data set"));
  nlohmann::json old = WriteOldTransforms();
  old["camera_model"] = "EQUIRECTANGULAR";
  dir_.Write("old/transforms.json", old.dump());
  EXPECT_THAT(Add(), StatusIs(StatusCode::kInvalidArgument, "is of panoramas"));
  old["frames"][0]["transform_matrix"] = "?";
  dir_.Write("old/transforms.json", old.dump());
  EXPECT_THAT(Add(), StatusIs(StatusCode::kInvalidArgument, "frames[0].transform_matrix"));
  WriteOldTransforms();
  std::filesystem::remove(dir_ / "in/a.jpg");
  AddPhoto("in/same.jpg", 102);
  EXPECT_THAT(Add(), StatusIs(StatusCode::kInvalidArgument, "holds no photograph to add"));
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    EXPECT_THAT(entry.path().filename().string(), ::testing::AnyOf("in", "old", "log"));
}

}  // namespace
}  // namespace nerf
