#include "server/rpc/convert/convert_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/training_config.h"

namespace nerf {
namespace {

TEST(ConvertConfigTest, EveryBackgroundHasTheSettingsWordOnTheWireAndBack) {
  for (const Background background :
       {Background::kAuto, Background::kWhite, Background::kBlack, Background::kRandom}) {
    const std::string_view word = BackgroundName(background);
    const auto proto = ParseBackgroundWord(word);
    ASSERT_TRUE(proto.has_value()) << word;
    EXPECT_EQ(BackgroundWord(*proto), word);
  }
  EXPECT_EQ(ParseBackgroundWord("pink"), std::nullopt);
  EXPECT_EQ(BackgroundWord(v1::TrainingConfig::BACKGROUND_UNSPECIFIED), "auto");
}

TEST(ConvertConfigTest, EveryBudgetSurvivesTheWayToTheQueueAndBack) {
  for (const BudgetKind kind : {BudgetKind::kSteps, BudgetKind::kSamples, BudgetKind::kSeconds}) {
    v1::TrainingConfig proto;
    ASSERT_TRUE(SetBudget({std::string(BudgetKindName(kind)), 90}, &proto));
    RequestCheck check;
    const TrainConfig config = ParseTrainConfig("config", proto, check);
    EXPECT_TRUE(check.Result().ok());
    EXPECT_EQ(config.budget.kind, kind);
    const auto words = GetBudget(ToProto(ToJobConfig(config), std::nullopt));
    ASSERT_TRUE(words.has_value());
    EXPECT_EQ(words->kind, BudgetKindName(kind));
    EXPECT_EQ(words->amount, 90);
  }
}

TEST(ConvertConfigTest, NoBudgetIsTheMethodsAndAnUnknownOneIsRefused) {
  RequestCheck check;
  EXPECT_EQ(ParseTrainConfig("config", {}, check).budget, Budget());
  v1::TrainingConfig proto;
  EXPECT_FALSE(SetBudget({"hours", 1}, &proto));
  EXPECT_FALSE(SetBudget({"steps", 0.5}, &proto));
  EXPECT_FALSE(SetBudget({"steps", -1}, &proto));
  EXPECT_FALSE(SetBudget({"steps", 4294967296.0}, &proto));
  EXPECT_EQ(GetBudget(proto), std::nullopt);
}

TEST(ConvertConfigTest, BackgroundOfALaterVersionIsRefused) {
  v1::TrainingConfig proto;
  proto.set_background(static_cast<v1::TrainingConfig::Background>(77));
  RequestCheck check;
  ParseTrainConfig("config", proto, check);
  EXPECT_THAT(check.Result().ToString(), testing::HasSubstr("config.background"));
}

}  // namespace
}  // namespace nerf
