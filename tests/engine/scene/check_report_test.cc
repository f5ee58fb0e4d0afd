#include "engine/scene/read/check_report.h"

#include "engine/scene/read/scene_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/scene/scene_fixture.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

TEST(CheckReportTest, GoodSceneIsOneLine) {
  EXPECT_EQ(
      CheckReportText(DescribeScene(kMic)),
      "blender · transforms_train.json + transforms_test.json · 125 of 125 images posed and "
      "present · PINHOLE 200x200 · 100 train, 25 test (transforms_test.json) · 19.1 MiB decoded"
      " · background random for training, white for evaluation · OK\n");
}

TEST(CheckReportTest, BackgroundIsTheOneAskedFor) {
  SceneDescription description = DescribeScene(kMic, {.test_every = {}, .decode_images = false});
  const auto ending = [&](std::string_view background) {
    const std::string text = CheckReportText(description, background);
    return text.substr(text.find("background "));
  };
  EXPECT_EQ(ending("white"), "background white · OK\n");
  EXPECT_EQ(ending("black"), "background black · OK\n");
  description.has_alpha = false;
  EXPECT_EQ(ending("auto"), "background black · OK\n");
  EXPECT_EQ(ending("random"), "background random for training, white for evaluation · OK\n");
}

TEST(CheckReportTest, GoodSceneAsJson) {
  const auto report = nlohmann::json::parse(CheckReportJson(DescribeScene(kMic)));
  EXPECT_EQ(report["event"], "done");
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["flavor"], "blender");
  EXPECT_EQ(report["train"], 100);
  EXPECT_EQ(report["test"], 25);
  EXPECT_EQ(report["image_bytes"], 125 * 200 * 200 * 4);
  EXPECT_TRUE(report["problems"].empty());
}

TEST(CheckReportTest, ProblemsAndWarningsComeOneALineWithoutControlCharacters) {
  SceneDescription description;
  description.source = "transforms.json";
  description.problems.Add("a.png", "", "file is empty");
  description.problems.Add("t\x1b[2J", "frames", "is\nmissing");
  description.warnings = {"3 of 4 listed images do not exist"};
  const std::string text = CheckReportText(description);
  EXPECT_THAT(text, HasSubstr("2 problems\n"));
  EXPECT_THAT(text, HasSubstr("error  a.png: file is empty\n"));
  EXPECT_THAT(text, HasSubstr("error  t?[2J: frames: is?missing\n"));
  EXPECT_THAT(text, HasSubstr("warn   3 of 4 listed images do not exist\n"));
}

TEST(CheckReportTest, NamesThatAreNotUtf8StillGiveOneLineOfJson) {
  SceneDescription description;
  description.problems.Add("\xff\xfe.png", "field", "message\n");
  const std::string text = CheckReportJson(description);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto report = nlohmann::json::parse(text);
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["flavor"], nullptr);
  EXPECT_EQ(report["problems"][0]["field"], "field");
}

}  // namespace
}  // namespace nerf
