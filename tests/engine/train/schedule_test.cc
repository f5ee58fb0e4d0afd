#include "engine/train/schedule.h"
#include "engine/base/config/step_size.h"

#include <gtest/gtest.h>

namespace nerf {
namespace {

TrainConfig Config() {
  TrainConfig config;
  config.learning_rate = 0.01f;
  config.warmup_steps = 100;
  return config;
}

TEST(ScheduleTest, FractionCountsWhatTheBudgetNames) {
  EXPECT_EQ(FractionSpent({BudgetKind::kSteps, 200}, 50, 1, 1), 0.25);
  EXPECT_EQ(FractionSpent({BudgetKind::kSamples, 1000}, 50, 750, 1), 0.75);
  EXPECT_EQ(FractionSpent({BudgetKind::kSeconds, 60}, 50, 1, 6), 0.1);
}

TEST(ScheduleTest, FractionIsOneFromTheBudgetsEndOn) {
  EXPECT_LT(FractionSpent({BudgetKind::kSteps, 200}, 199, 0, 0), 1);
  EXPECT_EQ(FractionSpent({BudgetKind::kSteps, 200}, 200, 0, 0), 1);
  EXPECT_EQ(FractionSpent({BudgetKind::kSamples, 1000}, 1, 5000, 0), 1);
}

TEST(ScheduleTest, WarmUpRisesLinearlyFromOnePercent) {
  EXPECT_FLOAT_EQ(LearningRate(Config(), 0, 0), 0.0001f);
  EXPECT_FLOAT_EQ(LearningRate(Config(), 50, 0.01), 0.00505f);
  EXPECT_FLOAT_EQ(LearningRate(Config(), 100, 0.02), 0.01f);
  EXPECT_FLOAT_EQ(LearningRate(Config(), 5000, 0.6999), 0.01f);
}

TEST(ScheduleTest, RateFallsOnALineFrom70PercentOfTheBudgetToOnePercent) {
  EXPECT_FLOAT_EQ(LearningRate(Config(), 5000, 0.7), 0.01f);
  EXPECT_FLOAT_EQ(LearningRate(Config(), 5000, 0.85), 0.01f * 0.505f);
  EXPECT_FLOAT_EQ(LearningRate(Config(), 5000, 0.94), 0.01f * 0.208f);
  EXPECT_FLOAT_EQ(LearningRate(Config(), 5000, 1), 0.0001f);
}

TEST(ScheduleTest, StepsAreLongAtFirstAndTheScenesOwnFromHalfOfTheBudgetOn) {
  TrainConfig config = Config();
  EXPECT_FLOAT_EQ(StepScale(config, 0), 3) << "auto";
  config.initial_step_scale = 3;
  EXPECT_FLOAT_EQ(StepScale(config, 0), 3);
  EXPECT_FLOAT_EQ(StepScale(config, 0.25), 2);
  EXPECT_EQ(StepScale(config, 0.5), 1);
  EXPECT_EQ(StepScale(config, 1), 1);
  config.initial_step_scale = 1;
  EXPECT_EQ(StepScale(config, 0), 1);
}

TEST(ScheduleTest, DistortionCountsUpToHalfOfTheBudget) {
  TrainConfig config = Config();
  config.distortion = 0.01f;
  EXPECT_FLOAT_EQ(DistortionWeight(config, 0), 0.01f);
  EXPECT_FLOAT_EQ(DistortionWeight(config, 0.25), 0.005f);
  EXPECT_EQ(DistortionWeight(config, 0.5), 0);
  EXPECT_EQ(DistortionWeight(config, 1), 0);
}

TEST(ScheduleTest, StepsGrowGeometricallyFrom30To80PercentOfTheBudget) {
  TrainConfig config = Config();
  config.target_samples = 1000;
  config.batch_growth = 4;
  EXPECT_EQ(TargetSamples(config, 0), 1000);
  EXPECT_EQ(TargetSamples(config, 0.3), 1000);
  EXPECT_EQ(TargetSamples(config, 0.55), 2000);
  EXPECT_EQ(TargetSamples(config, 0.8), 4000);
  EXPECT_EQ(TargetSamples(config, 1), 4000);
  EXPECT_EQ(LargestTargetSamples(config), 4000);
  config.batch_growth = 1;
  EXPECT_EQ(TargetSamples(config, 1), 1000);
}

TEST(ScheduleTest, LaterStepsTakeMoreOfTheTime) {
  TrainConfig config = Config();
  config.budget = {BudgetKind::kSteps, 1000};
  config.batch_growth = 4;
  double samples = 0, whole = 0;
  for (int i = 0; i < 100000; ++i) whole += TargetSamples(config, i / 1e5);
  for (int i = 0; i < 100000; ++i) {
    if (i % 12500 == 0) {
      EXPECT_NEAR(ShareOfTime(config, i / 1e5), samples / whole, 1e-4) << i;
    }
    samples += TargetSamples(config, i / 1e5);
  }
  EXPECT_DOUBLE_EQ(ShareOfTime(config, 1), 1);
  config.batch_growth = 1;
  EXPECT_DOUBLE_EQ(ShareOfTime(config, 0.4), 0.4);
  config.batch_growth = 4;
  config.budget.kind = BudgetKind::kSamples;
  EXPECT_EQ(ShareOfTime(config, 0.4), 0.4);
}

TEST(ScheduleTest, NoWarmUpStepsMeansFullRateAtOnce) {
  TrainConfig config = Config();
  config.warmup_steps = 0;
  EXPECT_FLOAT_EQ(LearningRate(config, 0, 0), 0.01f);
}

}  // namespace
}  // namespace nerf
