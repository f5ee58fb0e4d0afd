// What `nerf-engine ablate` runs, and its table.
#include "engine/program/commands/ablation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::string> NamesOf(const std::vector<AblationVariant>& variants) {
  std::vector<std::string> names;
  for (const AblationVariant& variant : variants) names.push_back(variant.name);
  return names;
}

TEST(AblationTest, SwitchHoldsItsValues) {
  const auto parsed = ParseAblationSwitch("near=0.1,0.2");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->key, "near");
  EXPECT_THAT(parsed->values, ElementsAre("0.1", "0.2"));
}

TEST(AblationTest, SwitchWithoutKeyOrValueIsRefused) {
  for (const char* text : {"", "near", "=1", "near=", "near=1,", "near=,1"})
    EXPECT_FALSE(ParseAblationSwitch(text).ok()) << text;
}

TEST(AblationTest, OneSwitchAtATimeBesideTheBaseline) {
  const auto variants = AblationVariants({{"near", {"1", "2"}}, {"far", {"3"}}}, false);
  EXPECT_THAT(NamesOf(variants), ElementsAre("baseline", "near=1", "near=2", "far=3"));
  EXPECT_TRUE(variants[0].arguments.empty());
  EXPECT_THAT(variants[2].arguments, ElementsAre("--set", "near=2"));
}

TEST(AblationTest, CrossHasEveryCombination) {
  const auto variants = AblationVariants({{"near", {"1", "2"}}, {"far", {"3"}}}, true);
  EXPECT_THAT(NamesOf(variants),
              ElementsAre("baseline", "near=1", "near=2", "far=3", "near=1 far=3", "near=2 far=3"));
  EXPECT_THAT(variants[5].arguments, ElementsAre("--set", "near=2", "--set", "far=3"));
}

TEST(AblationTest, FlagsOfTrainAndTheInstructionSetAreNoSettings) {
  const auto variants = AblationVariants({{"method", {"voxels"}}, {"simd", {"FP32"}}}, false);
  EXPECT_THAT(variants[1].arguments, ElementsAre("--method", "voxels"));
  EXPECT_TRUE(variants[2].arguments.empty());
  EXPECT_THAT(variants[2].environment, ElementsAre(Pair("NERF_SIMD", "FP32")));
}

AblationRun RunOf(double psnr, double ssim = kUnknownFigure, double lpips = kUnknownFigure) {
  AblationRun run;
  if (psnr > 0) run.summary.psnr = psnr;
  if (ssim > 0) run.summary.ssim = ssim;
  if (lpips > 0) run.summary.lpips = lpips;
  return run;
}

TEST(AblationTest, FoldersHaveTheNamesOfVariantsAndDiffer) {
  const auto variants =
      AblationVariants({{"init", {"a/../b", "a_.._b"}}, {"far", {std::string(300, '9')}}}, false);
  const std::vector<std::string> names = FolderNames(variants);
  EXPECT_THAT(names, ElementsAre("baseline", "init=a_.._b", "init=a_.._b_2",
                                 "far=" + std::string(96, '9')));
}

TEST(AblationTest, RowIsTheMeanOfItsSeedsAndTheLargestMemory) {
  AblationRow row;
  row.name = "near=1";
  AblationRun run = RunOf(20, 0.8, 0.25);
  run.summary.samples = 1e6;
  run.summary.seconds = 2;
  run.summary.peak_rss_bytes = 3 << 20;
  run.cpu_seconds = 5;
  row.runs.push_back(run);
  EXPECT_THAT(AblationLine(row, 20.25, {}), ::testing::EndsWith("   -0.25       -  0.8000"))
      << "one seed has no spread";
  run = RunOf(21, 0.9, 0.5);
  run.summary.samples = 3e6;
  run.summary.seconds = 4;
  run.summary.peak_rss_bytes = 1 << 20;
  run.cpu_seconds = 6;
  row.runs.push_back(run);
  const std::string line =
      "near=1                             2.0      3.0      5.5         3    20.50   +0.25"
      "    1.00  0.8500";
  EXPECT_EQ(AblationLine(row, 20.25, {}), line);
  EXPECT_EQ(AblationLine(row, 20.25, {.has_lpips = true}), line + "  0.3750");
}

TEST(AblationTest, SecondsToAPsnrLieBetweenTwoBudgets) {
  EXPECT_DOUBLE_EQ(SecondsToPsnr({{3, 20}}, 19), 3) << "the first run is enough";
  EXPECT_DOUBLE_EQ(SecondsToPsnr({{1, 18}, {4, 20}}, 19), 2);
  EXPECT_DOUBLE_EQ(SecondsToPsnr({{1, 18}, {4, 20}}, 20), 4);
  EXPECT_DOUBLE_EQ(SecondsToPsnr({{1, 10}, {2, 17}, {8, 21}}, 19), 4);
  EXPECT_TRUE(std::isnan(SecondsToPsnr({{1, 18}, {4, 20}}, 21)));
  EXPECT_TRUE(std::isnan(SecondsToPsnr({{1, kUnknownFigure}}, 1)));
  EXPECT_TRUE(std::isnan(SecondsToPsnr({}, 1)));
}

TEST(AblationTest, ColumnsThatAreAskedFor) {
  EXPECT_THAT(AblationHead({}), ::testing::EndsWith("SPREAD    SSIM"));
  EXPECT_THAT(AblationHead({.has_lpips = true}), ::testing::EndsWith("SSIM   LPIPS"));
  const AblationColumns seconds = {.target_psnr = 30.5};
  EXPECT_THAT(AblationHead(seconds), ::testing::EndsWith("SSIM S TO 30.5 DB"));
  AblationRow row;
  row.runs = {RunOf(20), RunOf(20)};
  JsonObject object;
  SetAblationRow(row, {}, &object);
  EXPECT_FALSE(object.contains("seconds_to_psnr"));
  EXPECT_FALSE(object.contains("lpips"));
  row.runs[0].seconds_to_psnr = 2;
  row.runs[1].seconds_to_psnr = 3;
  EXPECT_THAT(AblationLine(row, 20, seconds), ::testing::EndsWith("         2.5"));
  SetAblationRow(row, seconds, &object);
  EXPECT_EQ(object["seconds_to_psnr"], 2.5);
  row.runs[1].seconds_to_psnr = kUnknownFigure;
  EXPECT_THAT(AblationLine(row, 20, seconds), ::testing::EndsWith("           -"));
}

TEST(AblationTest, WithoutTestViewsThereIsNoPsnr) {
  AblationRow row;
  row.runs = {RunOf(0)};
  EXPECT_TRUE(std::isnan(row.MeanPsnr()));
  EXPECT_THAT(AblationLine(row, kUnknownFigure, {}), HasSubstr(" - "));
  JsonObject object;
  SetAblationRow(row, {}, &object);
  EXPECT_TRUE(object["psnr"].is_null());
}

TEST(AblationTest, CsvHasALineOfEachTrainingAndOfEachFailure) {
  AblationRow good, bad;
  good.name = "init=a,\"b\"";
  good.runs = {RunOf(20.5, 0.5)};
  good.runs[0].folder = "x/seed1";
  bad.name = "step=0";
  bad.failure = "step: out of range, \"0\"";
  EXPECT_EQ(AblationCsv({good, bad}),
            "technique,seed,samples,seconds,cpu_seconds,peak_rss_bytes,psnr,ssim,lpips,"
            "seconds_to_psnr,folder,failure\n"
            "\"init=a,\"\"b\"\"\",1,0,0,0,0,20.5,0.5,,,x/seed1,\n"
            "step=0,1,,,,,,,,,,\"step: out of range, \"\"0\"\"\"\n");
}

TEST(AblationTest, FailureTakesThePlaceOfFigures) {
  AblationRow row;
  row.name = "step=0";
  row.failure = "step: out of range";
  EXPECT_THAT(AblationLine(row, 20, {}), HasSubstr("failed: step: out of range"));
  JsonObject object;
  SetAblationRow(row, {}, &object);
  EXPECT_EQ(object["failure"], "step: out of range");
  EXPECT_FALSE(object.contains("psnr"));
}

}  // namespace
}  // namespace nerf
