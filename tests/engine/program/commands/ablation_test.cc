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

TEST(AblationTest, RowIsTheMeanOfItsSeedsAndTheLargestMemory) {
  AblationRow row;
  row.name = "near=1";
  TrainSummary summary;
  summary.samples = 1e6;
  summary.seconds = 2;
  summary.peak_rss_bytes = 3 << 20;
  summary.psnr = 20;
  AddToRow(summary, 5, &row);
  EXPECT_THAT(AblationLine(row, 20.25), ::testing::EndsWith("   -0.25       -")) << "one seed";
  summary.samples = 3e6;
  summary.seconds = 4;
  summary.peak_rss_bytes = 1 << 20;
  summary.psnr = 21;
  AddToRow(summary, 6, &row);
  EXPECT_EQ(
      AblationLine(row, 20.25),
      "near=1                                 2.0      3.0      5.5         3    20.50   +0.25"
      "    1.00");
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

TEST(AblationTest, SecondsToAPsnrHaveAColumnWhereTheyAreAskedFor) {
  EXPECT_THAT(AblationHead(30.5), ::testing::EndsWith("SPREAD S TO 30.5 DB"));
  EXPECT_THAT(AblationHead(0), ::testing::EndsWith("SPREAD"));
  AblationRow row;
  AddToRow(TrainSummary(), 1, &row);
  JsonObject object;
  SetAblationRow(row, &object);
  EXPECT_FALSE(object.contains("seconds_to_psnr"));
  row.seconds_to_psnr = {2, 3};
  EXPECT_THAT(AblationLine(row, 20), ::testing::EndsWith("         2.5"));
  SetAblationRow(row, &object);
  EXPECT_EQ(object["seconds_to_psnr"], 2.5);
  row.seconds_to_psnr.push_back(kUnknownFigure);
  EXPECT_THAT(AblationLine(row, 20), ::testing::EndsWith("           -"));
}

TEST(AblationTest, WithoutTestViewsThereIsNoPsnr) {
  AblationRow row;
  AddToRow(TrainSummary(), 1, &row);
  EXPECT_TRUE(std::isnan(row.MeanPsnr()));
  EXPECT_THAT(AblationLine(row, kUnknownFigure), HasSubstr(" - "));
  JsonObject object;
  SetAblationRow(row, &object);
  EXPECT_TRUE(object["psnr"].is_null());
}

TEST(AblationTest, FailureTakesThePlaceOfFigures) {
  AblationRow row;
  row.name = "step=0";
  row.failure = "step: out of range";
  EXPECT_THAT(AblationLine(row, 20), HasSubstr("failed: step: out of range"));
  JsonObject object;
  SetAblationRow(row, &object);
  EXPECT_EQ(object["failure"], "step: out of range");
  EXPECT_FALSE(object.contains("psnr"));
}

}  // namespace
}  // namespace nerf
