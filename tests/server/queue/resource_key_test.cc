#include "server/queue/resources/resource_key.h"

#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(ResourceKeyTest, NamesComeBack) {
  const ResourceKey key{"default", "j-1"};
  EXPECT_THAT(ParseJobName("name", JobName(key)), IsOkAndHolds(key));
  EXPECT_THAT(ParseSceneName("name", SceneName(key)), IsOkAndHolds(key));
  EXPECT_THAT(ParseModelName("name", ModelName(key)), IsOkAndHolds(key));
  const auto checkpoint = ParseCheckpointName("name", CheckpointName(key, 1200));
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ(checkpoint->job, key);
  EXPECT_EQ(checkpoint->step, 1200u);
  EXPECT_EQ(ParseCheckpointName("name", JobName(key) + "/checkpoints/-")->step, std::nullopt);
  EXPECT_THAT(ParseProjectName("parent", ""), IsOkAndHolds(std::string("default")));
  EXPECT_THAT(ParseProjectName("parent", "projects/p"), IsOkAndHolds(std::string("p")));
}

TEST(ResourceKeyTest, BadNamesAreRefusedWithTheirField) {
  for (const char* bad :
       {"", "j-1", "projects/default/scenes/j-1", "projects/default/trainingJobs/j-1",
        "projects/default/jobs/", "projects//jobs/a", "/projects/p/jobs/a", "projects/p/jobs/a/",
        "projects/p/jobs/../x", "projects/P/jobs/a", "projects/p/jobs/a b"}) {
    EXPECT_THAT(ParseJobName("job", bad), StatusIs(absl::StatusCode::kInvalidArgument, "job: "))
        << bad;
  }
  for (const char* bad :
       {"", "1", "projects/p/jobs/a", "projects/p/jobs/a/checkpoints/",
        "projects/p/jobs/a/checkpoints/-1", "projects/p/jobs/a/checkpoints/01",
        "projects/p/jobs/a/checkpoints/4294967296", "projects/p/jobs/a/checkpoints/1/2"}) {
    EXPECT_THAT(ParseCheckpointName("name", bad),
                FailsWith(absl::StatusCode::kInvalidArgument, reason::kFieldInvalid))
        << bad;
  }
  EXPECT_FALSE(ParseProjectName("parent", "default").ok());
  EXPECT_FALSE(ParseProjectName("parent", "projects/a/b").ok());
}

}  // namespace
}  // namespace nerf
