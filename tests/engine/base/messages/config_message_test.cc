#include "engine/base/messages/config_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/messages/training_config.h"
#include "engine/base/method_list/method_descriptions.h"

namespace nerf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// The config; expects that nothing is wrong with it.
TrainConfig ReadValid(const v1::TrainingConfig& message) {
  Problems problems;
  const TrainConfig config = ReadConfig("config", message, &problems);
  EXPECT_TRUE(problems.empty()) << message.ShortDebugString();
  return config;
}

// The fields that are refused.
std::vector<std::string> WrongFields(const v1::TrainingConfig& message) {
  Problems problems;
  ReadConfig("config", message, &problems);
  std::vector<std::string> fields;
  for (const Problem& problem : problems) {
    EXPECT_FALSE(problem.message.empty()) << problem.field;
    fields.push_back(problem.field);
  }
  return fields;
}

TEST(ConfigMessageTest, EveryBackgroundHasTheSettingsWordOnTheWireAndBack) {
  for (const Background background :
       {Background::kAuto, Background::kWhite, Background::kBlack, Background::kRandom}) {
    const std::string_view word = BackgroundName(background);
    const auto sent = ParseBackgroundWord(word);
    ASSERT_TRUE(sent.has_value()) << word;
    EXPECT_EQ(BackgroundWord(*sent), word);
    v1::TrainingConfig message;
    message.set_background(*sent);
    EXPECT_EQ(ReadValid(message).background, background);
    EXPECT_EQ(ToMessage(ReadValid(message)).background(), *sent);
  }
  EXPECT_EQ(ParseBackgroundWord("pink"), std::nullopt);
  EXPECT_EQ(BackgroundWord(v1::TrainingConfig::BACKGROUND_UNSPECIFIED), "auto");
  EXPECT_EQ(ReadValid({}).background, Background::kAuto);
}

TEST(ConfigMessageTest, EveryBudgetComesBack) {
  for (const BudgetKind kind : {BudgetKind::kSteps, BudgetKind::kSamples, BudgetKind::kSeconds}) {
    v1::TrainingConfig message;
    ASSERT_TRUE(SetBudget({std::string(BudgetKindName(kind)), 90}, &message));
    const TrainConfig config = ReadValid(message);
    EXPECT_EQ(config.budget, (Budget{kind, 90}));
    EXPECT_EQ(GetBudget(ToMessage(config)), GetBudget(message));
  }
}

TEST(ConfigMessageTest, NoBudgetIsTheMethodsAndAnUnknownOneIsRefused) {
  EXPECT_EQ(ReadValid({}).budget, Budget());
  v1::TrainingConfig message;
  EXPECT_FALSE(SetBudget({"hours", 1}, &message));
  EXPECT_FALSE(SetBudget({"steps", 0.5}, &message));
  EXPECT_FALSE(SetBudget({"steps", -1}, &message));
  EXPECT_FALSE(SetBudget({"steps", 4294967296.0}, &message));
  EXPECT_EQ(GetBudget(message), std::nullopt);
}

TEST(ConfigMessageTest, BudgetsOutOfRangeAreRefusedByTheirField) {
  v1::TrainingConfig message;
  message.set_steps(0);
  EXPECT_THAT(WrongFields(message), ElementsAre("config.steps"));
  for (const double amount : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    message.set_samples(amount);
    EXPECT_THAT(WrongFields(message), ElementsAre("config.samples")) << amount;
    message.set_seconds(amount);
    EXPECT_THAT(WrongFields(message), ElementsAre("config.seconds")) << amount;
  }
}

TEST(ConfigMessageTest, BackgroundOfALaterVersionIsRefused) {
  v1::TrainingConfig message;
  message.set_background(static_cast<v1::TrainingConfig::Background>(77));
  EXPECT_THAT(WrongFields(message), ElementsAre("config.background"));
}

TEST(ConfigMessageTest, TestViewsAreHeldOutAsIsAsked) {
  EXPECT_EQ(ReadValid({}).test_every, TrainConfig().test_every);
  v1::TrainingConfig message;
  for (const uint32_t test_every : {0u, 2u, 100u}) {
    message.set_test_every(test_every);
    EXPECT_EQ(ReadValid(message).test_every, static_cast<int>(test_every));
  }
  for (const uint32_t test_every : {1u, 2'147'483'648u, 4'294'967'295u}) {
    message.set_test_every(test_every);
    EXPECT_THAT(WrongFields(message), ElementsAre("config.test_every")) << test_every;
  }
}

TEST(ConfigMessageTest, EverySettingOfEveryMethodComesBack) {
  for (const MethodDescription* method : MethodDescriptions()) {
    v1::TrainingConfig message;
    message.set_method(std::string(method->name()));
    message.set_seed(4294967295);
    message.set_steps(30);
    message.set_test_every(5);
    message.set_background(v1::TrainingConfig::WHITE);
    (*message.mutable_settings())["learning_rate"] = "0.0078125";
    const TrainConfig config = ReadValid(message);
    EXPECT_EQ(config.method, method->name());
    EXPECT_EQ(config.seed, 4294967295u);
    EXPECT_EQ(config.learning_rate, 0.0078125f);
    const v1::TrainingConfig whole = ToMessage(config);
    const auto settings = ConfigSettings(config);
    EXPECT_EQ(whole.settings().size(), settings.size()) << "every setting is written";
    EXPECT_FALSE(whole.has_init());
    EXPECT_TRUE(ReadValid(whole) == config) << method->name();
  }
}

TEST(ConfigMessageTest, DefaultsAreThoseOfTheMethodAndTheStartIsNotRead) {
  v1::TrainingConfig message;
  message.set_seed(1);
  EXPECT_TRUE(ReadValid(message) == TrainConfig());
  message.mutable_init()->set_model("no name");
  EXPECT_TRUE(ReadValid(message) == TrainConfig());
  message.clear_init();
  for (const MethodDescription* method : MethodDescriptions()) {
    message.set_method(std::string(method->name()));
    EXPECT_TRUE(ReadValid(message) == *DefaultConfig(method->name())) << method->name();
  }
}

TEST(ConfigMessageTest, EveryProblemIsListedAndWhatIsWrongIsTheDefault) {
  v1::TrainingConfig message;
  message.set_method("no such method");
  message.set_steps(0);
  message.set_test_every(4'000'000'000);
  message.set_background(static_cast<v1::TrainingConfig::Background>(77));
  auto& settings = *message.mutable_settings();
  settings["no_such_key"] = "1";
  settings["ema_decay"] = "fast";
  settings["learning_rate"] = "0.5";
  EXPECT_THAT(WrongFields(message),
              UnorderedElementsAre("config.method", "config.steps", "config.test_every",
                                   "config.background", "config.settings[no_such_key]",
                                   "config.settings[ema_decay]"));
  Problems problems;
  problems.Add("before", "is kept");
  const TrainConfig config = ReadConfig("job.config", message, &problems);
  EXPECT_EQ(problems.size(), 7u);
  EXPECT_EQ(problems[0].field, "before");
  EXPECT_EQ(problems[1].field, "job.config.method");
  EXPECT_EQ(config.method, TrainConfig().method);
  EXPECT_EQ(config.background, TrainConfig().background);
  EXPECT_EQ(config.ema_decay, TrainConfig().ema_decay);
  EXPECT_EQ(config.learning_rate, 0.5f);
}

TEST(ConfigMessageTest, SettingsOutOfRangeAndLongOnesAreRefused) {
  v1::TrainingConfig message;
  (*message.mutable_settings())["learning_rate"] = "-1";
  EXPECT_THAT(WrongFields(message), testing::SizeIs(1));
  message.mutable_settings()->clear();
  (*message.mutable_settings())[std::string(100'000, 'k')] = "1";
  EXPECT_THAT(WrongFields(message), ElementsAre("config.settings[" + std::string(128, 'k') + "]"));
  message.mutable_settings()->clear();
  (*message.mutable_settings())["learning_rate"] = std::string(100'000, '1');
  EXPECT_THAT(WrongFields(message), ElementsAre("config.settings[learning_rate]"));
  message.mutable_settings()->clear();
  EXPECT_THAT(WrongFields(message), IsEmpty());
}

// ToMessage may write more letters than were sent: 1e-5 becomes 1e-05.
TEST(ConfigMessageTest, WhatIsWrittenCanBeRead) {
  v1::TrainingConfig message;
  const std::string number = "1.2345678e-5";
  const std::string box = number + "," + number + "," + number + "," + number;
  (*message.mutable_settings())["box"] = box;
  Problems problems;
  const v1::TrainingConfig written = ToMessage(ReadConfig("config", message, &problems));
  ASSERT_THAT(problems.list(), IsEmpty());
  EXPECT_GT(written.settings().at("box").size(), box.size());
  EXPECT_THAT(WrongFields(written), IsEmpty());
}

}  // namespace
}  // namespace nerf
