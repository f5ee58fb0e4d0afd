#include "client/calls/job_flags.h"

#include <gtest/gtest.h>

#include <sstream>

#include "engine/base/method_list/method_descriptions.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

absl::StatusOr<v1::CreateJobRequest> Build(const JobFlags& flags) {
  FakeRandom random;
  return BuildJobRequest(flags, "default", random);
}

TEST(JobFlagsTest, NoFlagsGiveDefaultsAndARequestId) {
  const auto request = Build({});
  ASSERT_THAT(request, IsOk());
  EXPECT_TRUE(IsUuid4(request->request_id()));
  EXPECT_EQ(request->parent(), "projects/default");
  const v1::TrainingConfig& config = request->job().training().config();
  EXPECT_EQ(config.seed(), TrainConfig().seed);
  EXPECT_EQ(config.budget_case(), v1::TrainingConfig::BUDGET_NOT_SET);
  EXPECT_FALSE(config.has_test_every());
  EXPECT_FALSE(config.has_init());
}

TEST(JobFlagsTest, SecondsMayHaveAUnit) {
  for (const auto& [text, seconds] :
       {std::pair{"90", 90.0}, {"90s", 90.0}, {"5m", 300.0}, {"1h30m", 5400.0}, {"2.5", 2.5}}) {
    JobFlags flags;
    flags.seconds = text;
    const auto request = Build(flags);
    ASSERT_THAT(request, IsOk()) << text;
    EXPECT_EQ(request->job().training().config().seconds(), seconds) << text;
  }
  for (const char* text : {"0", "-5m", "5 minutes", "inf", "m"}) {
    JobFlags flags;
    flags.seconds = text;
    EXPECT_THAT(Build(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--seconds")) << text;
  }
}

TEST(JobFlagsTest, NoEvalIsASettingThatTheJobSendsOn) {
  JobFlags flags;
  flags.no_eval = true;
  const auto request = Build(flags);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->job().training().config().settings().at("evaluate"), "0");
  flags.settings = {"evaluate=1"};
  EXPECT_THAT(Build(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--no-eval"));
}

TEST(JobFlagsTest, FlagsBecomeTheConfig) {
  JobFlags flags;
  flags.samples = "40M";
  flags.seed = "7";
  flags.background = "white";
  flags.test_every = "0";
  flags.init = "j-1/200";
  flags.settings = {"loss=mse,log2_hashmap_size=14", "box=0,0,0,2"};
  flags.display_name = "Mic";
  flags.request_id = "6f1c2a34-8a1b-4c5d-9e0f-123456789abc";
  const auto request = Build(flags);
  ASSERT_THAT(request, IsOk());
  const v1::TrainingConfig& config = request->job().training().config();
  EXPECT_EQ(config.samples(), 40e6);
  EXPECT_EQ(config.seed(), 7u);
  EXPECT_EQ(config.background(), v1::TrainingConfig::WHITE);
  EXPECT_TRUE(config.has_test_every());
  EXPECT_EQ(config.test_every(), 0u);
  EXPECT_EQ(config.init().checkpoint(), "projects/default/jobs/j-1/checkpoints/200");
  EXPECT_EQ(config.settings().at("loss"), "mse");
  EXPECT_EQ(config.settings().at("box"), "0,0,0,2");
  EXPECT_EQ(config.settings_size(), 3);
  EXPECT_EQ(request->request_id(), flags.request_id);
  EXPECT_EQ(request->job().display_name(), "Mic");
}

TEST(JobFlagsTest, AutoLeavesTheStartToTheServer) {
  JobFlags flags;
  flags.init = "auto";
  auto request = Build(flags);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->job().training().config().init().model(), "auto");
  // A model of this name is named in full.
  flags.init = "projects/default/models/auto";
  request = Build(flags);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->job().training().config().init().model(), "projects/default/models/auto");
  for (const char* wrong : {"Auto", "auto ", "auto,mic", "AUTO"}) {
    flags.init = wrong;
    EXPECT_THAT(Build(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--init")) << wrong;
  }
}

TEST(JobFlagsTest, EveryWrongFlagIsNamedAtOnce) {
  JobFlags flags;
  flags.steps = "0";
  flags.seed = "-1";
  flags.background = "pink";
  flags.test_every = "x";
  flags.init = "a b";
  flags.settings = {"nonsense", "betta1=0.5", "loss=huber", "loss=mse"};
  flags.id = "Bad";
  flags.request_id = "1";
  flags.method = "gauss";
  const auto request = Build(flags);
  ASSERT_FALSE(request.ok());
  std::multiset<std::string> fields;
  for (const Problem& problem : GetProblems(request.status())) {
    fields.insert(problem.field);
  }
  EXPECT_EQ(fields, (std::multiset<std::string>{"--steps", "--seed", "--background", "--test-every",
                                                "--init", "--set", "--set", "--set", "--id",
                                                "--request-id", "--method"}));
}

TEST(JobFlagsTest, InvalidIdComesWithAValidOneNearIt) {
  JobFlags flags;
  const auto description = [&](const char* id) {
    flags.id = id;
    const auto problems = GetProblems(Build(flags).status());
    return problems.size() == 1 ? problems[0].message : "";
  };
  const std::string refused = " is not 1 to 63 of a-z, 0-9 and -, beginning with a letter";
  EXPECT_EQ(description("Fern_8"), "'Fern_8'" + refused + ": try fern-8");
  EXPECT_EQ(description("8"), "'8'" + refused);
}

TEST(JobFlagsTest, PosesAndExifBecomeSettings) {
  JobFlags flags;
  flags.poses = "w2c";
  flags.apply_exif = true;
  const auto request = Build(flags);
  ASSERT_THAT(request, IsOk());
  const auto& settings = request->job().training().config().settings();
  EXPECT_EQ(settings.at("poses"), "w2c");
  EXPECT_EQ(settings.at("apply_exif"), "1");
  flags.poses = "sideways";
  EXPECT_EQ(GetProblems(Build(flags).status())[0].field, "--poses");
  flags.poses = "opencv";
  flags.settings = {"poses=opengl"};
  EXPECT_THAT(Build(flags), StatusIs(absl::StatusCode::kInvalidArgument, "--set poses, too"));
}

TEST(JobFlagsTest, MaxSideNamesTheRangeOfTheFlag) {
  JobFlags flags;
  for (const char* side : {"16385", "20000", "20k", "-1", "1e300", "-inf"}) {
    flags.max_side = side;
    const auto problems = GetProblems(Build(flags).status());
    ASSERT_EQ(problems.size(), 1u) << side;
    EXPECT_EQ(problems[0].field, "--max-side");
    EXPECT_EQ(problems[0].message, "'" + std::string(side) + "' is not between 0 and 16384");
  }
  for (const char* side : {"nan", "many", "7.5"}) {
    flags.max_side = side;
    EXPECT_THAT(Build(flags), StatusIs(absl::StatusCode::kInvalidArgument, "whole number")) << side;
  }
  for (const char* side : {"0", "700", "16384", "16k"}) {
    flags.max_side = side;
    EXPECT_THAT(Build(flags), IsOk()) << side;
  }
}

// Values that the server would refuse only after the upload.
TEST(JobFlagsTest, BudgetsAndSplitsThatTheServerRefusesAreRefusedHere) {
  const auto fields_of = [](const JobFlags& flags) {
    std::vector<std::string> fields;
    for (const Problem& problem : GetProblems(Build(flags).status())) {
      fields.push_back(problem.field);
    }
    return fields;
  };
  const auto with = [](std::string JobFlags::*flag, const char* value) {
    JobFlags flags;
    flags.*flag = value;
    return flags;
  };
  for (const char* samples : {"1.5", "1e16"}) {
    EXPECT_EQ(fields_of(with(&JobFlags::samples, samples)), std::vector<std::string>{"--samples"})
        << samples;
  }
  EXPECT_EQ(fields_of(with(&JobFlags::steps, "4.2e9")), std::vector<std::string>{"--steps"});
  EXPECT_EQ(fields_of(with(&JobFlags::seconds, "1e16")), std::vector<std::string>{"--seconds"});
  EXPECT_EQ(fields_of(with(&JobFlags::test_every, "1")), std::vector<std::string>{"--test-every"});
  JobFlags good = with(&JobFlags::samples, "40M");
  good.test_every = "2";
  EXPECT_THAT(Build(good), IsOk());
}

TEST(JobFlagsTest, SettingsTableListsEveryKeyWithItsDefault) {
  std::ostringstream out;
  EXPECT_THAT(PrintSettings(JobFlags(), {out, OutputFormat::kTable, false, absl::UnixEpoch()}),
              IsOk());
  for (const Setting& field : MethodDescriptionOf(TrainConfig()).settings()) {
    EXPECT_NE(out.str().find("\n" + std::string(field.key) + " "), std::string::npos) << field.key;
  }
  EXPECT_NE(out.str().find("log2_hashmap_size     auto     12 to 22"), std::string::npos);
  EXPECT_NE(out.str().find("grid_resolution       auto     32 to 256"), std::string::npos);
}

}  // namespace
}  // namespace nerf
