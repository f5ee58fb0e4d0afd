#include "client/flags/names.h"

#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(NamesTest, ShortIdsExpandIntoTheProjectAndFullNamesStay) {
  EXPECT_THAT(ExpandName(ResourceKind::kJob, "j-7f3k2c81", "default"),
              IsOkAndHolds("projects/default/jobs/j-7f3k2c81"));
  EXPECT_THAT(ExpandName(ResourceKind::kScene, "mic", "lab"),
              IsOkAndHolds("projects/lab/scenes/mic"));
  EXPECT_THAT(ExpandName(ResourceKind::kModel, "projects/a/models/b", "lab"),
              IsOkAndHolds("projects/a/models/b"));
  EXPECT_THAT(ExpandName(ResourceKind::kWorker, "w-1", "lab"), IsOkAndHolds("workers/w-1"));
}

TEST(NamesTest, WhatCannotBeANameIsRefusedWithWhatWasExpected) {
  for (const char* text :
       {"", "J-1", "a b", "../x", "projects/a/scenes/b", "projects/a/models/", "projects//jobs/x",
        "jobs/j-1", "j-1/", "j-1\n", "projects/a/jobs/j/checkpoints/1"}) {
    EXPECT_THAT(ExpandName(ResourceKind::kJob, text, "default"),
                StatusIs(kInvalid, "projects/PROJECT/jobs/ID"))
        << text;
  }
  EXPECT_THAT(ExpandName(ResourceKind::kJob, std::string(64, 'a'), "default"), StatusIs(kInvalid));
  EXPECT_THAT(ExpandName(ResourceKind::kJob, "j-1", "Not OK"), StatusIs(kInvalid, "--project"));
}

TEST(NamesTest, CheckpointsAreJobAndStep) {
  const std::string full = "projects/default/jobs/j-1/checkpoints/1200";
  for (const std::string& text :
       {std::string("j-1/1200"), std::string("j-1/checkpoints/1200"), full,
        std::string("projects/default/jobs/j-1/checkpoints/1200")}) {
    EXPECT_THAT(ExpandCheckpointName(text, "default", false), IsOkAndHolds(full)) << text;
    EXPECT_TRUE(LooksLikeCheckpoint(text)) << text;
  }
  for (const char* text : {"j-1", "j-1/-", "projects/default/jobs/j-1"}) {
    EXPECT_THAT(ExpandCheckpointName(text, "default", true),
                IsOkAndHolds("projects/default/jobs/j-1/checkpoints/-"))
        << text;
    EXPECT_THAT(ExpandCheckpointName(text, "default", false), StatusIs(kInvalid, "JOB/STEP"))
        << text;
  }
  for (const char* text : {"", "/", "j-1/x", "j-1/-5", "j-1/99999999999", "a/b/c", "j-1/1/2",
                           "projects/p/models/m/checkpoints/1", "/checkpoints/1"}) {
    EXPECT_THAT(ExpandCheckpointName(text, "default", true), StatusIs(kInvalid)) << text;
  }
}

TEST(NamesTest, ErrorsNameResourcesOfTheProjectByTheirShortIds) {
  EXPECT_EQ(WithShortNames("projects/default/jobs/j-1 is RUNNING", "default"), "j-1 is RUNNING");
  EXPECT_EQ(WithShortNames("no projects/lab/jobs/j-1/checkpoints/20, projects/lab/models/m", "lab"),
            "no j-1/20, m");
  EXPECT_EQ(WithShortNames("projects/lab/scenes/s", "default"), "projects/lab/scenes/s");
  EXPECT_EQ(WithShortNames("projects/default/jobs/", "default"), "");
  EXPECT_EQ(WithShortNames("", "default"), "");
}

TEST(NamesTest, ShortNameIsWhatPeopleType) {
  EXPECT_EQ(ShortName("projects/default/jobs/j-1"), "j-1");
  EXPECT_EQ(ShortName("projects/default/jobs/j-1/checkpoints/20"), "j-1/20");
  EXPECT_EQ(ShortName("workers/w-1"), "w-1");
  EXPECT_EQ(ShortName(""), "");
}

}  // namespace
}  // namespace nerf
