#include "server/queue/upkeep/resource_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/queue/upkeep/queue_admin.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

class ResourceRetentionTest : public testing::Test {
 protected:
  ResourceRetentionTest() { harness_.AddScene(); }

  void Keep(const ProjectRetention& retention) {
    EXPECT_THAT(admin_.UpdateProject("default", [&](ProjectRecord& r) { r.retention = retention; }),
                IsOk());
  }
  void EndJob(const std::string& id) {
    EXPECT_THAT(harness_.queue->Create(harness_.Spec(id)), IsOk());
    EXPECT_THAT(harness_.queue->Cancel(QueueHarness::Key(id)), IsOk());
  }
  bool HasJob(const std::string& id) { return harness_.queue->Get(QueueHarness::Key(id)).ok(); }
  bool HasScene(const std::string& id) { return harness_.scenes->Get(QueueHarness::Key(id)).ok(); }
  void Sweep() { EXPECT_THAT(retention_.Sweep(), IsOk()); }

  QueueHarness harness_;
  WorkerTable workers_{&harness_.clock, harness_.options.lease_ttl};
  QueueAdmin admin_{harness_.state.get(), &workers_};
  std::vector<std::string> deleted_models_;
  ResourceRetention retention_{
      harness_.state.get(), &*harness_.queue, &*harness_.scenes, &*harness_.models,
      [this](const ResourceKey& model) { deleted_models_.push_back(model.id); }};
};

TEST_F(ResourceRetentionTest, NothingIsDeletedUnlessAsked) {
  EndJob("old");
  harness_.AddScene("unused");
  harness_.clock.Advance(absl::Hours(24 * 365));
  Sweep();
  harness_.clock.Advance(absl::Hours(24 * 365));
  Sweep();
  EXPECT_TRUE(HasJob("old"));
  EXPECT_TRUE(HasScene("unused"));
}

TEST_F(ResourceRetentionTest, JobsGoAtTheirAgeAfterTheirEnd) {
  Keep({.ended_job_age = absl::Hours(10)});
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("queued")), IsOk());
  EndJob("old");
  harness_.clock.Advance(absl::Hours(5));
  EndJob("new");
  harness_.clock.Advance(absl::Hours(5));
  Sweep();
  EXPECT_FALSE(HasJob("old"));
  EXPECT_TRUE(HasJob("new"));
  EXPECT_TRUE(HasJob("queued"));
}

TEST_F(ResourceRetentionTest, JumpOfTheWallClockDeletesNothing) {
  Keep({.ended_job_age = absl::Hours(10)});
  EndJob("old");
  harness_.clock.JumpWall(absl::Hours(24 * 365));
  Sweep();
  EXPECT_TRUE(HasJob("old"));
}

TEST_F(ResourceRetentionTest, JobsThatEndedFirstGoAboveTheCount) {
  Keep({.max_ended_jobs = 2});
  EXPECT_THAT(harness_.queue->Create(harness_.Spec("first")), IsOk());
  EndJob("second");
  harness_.clock.Advance(absl::Seconds(1));
  EndJob("third");
  harness_.clock.Advance(absl::Seconds(1));
  EXPECT_THAT(harness_.queue->Cancel(QueueHarness::Key("first")), IsOk());  // ends last
  Sweep();
  EXPECT_TRUE(HasJob("first"));
  EXPECT_FALSE(HasJob("second"));
  EXPECT_TRUE(HasJob("third"));
}

TEST_F(ResourceRetentionTest, UnusedScenesGoAndUsedOnesStay) {
  Keep({.unused_scene_age = absl::Hours(10)});
  EndJob("job");  // of the scene "scene"
  harness_.AddScene("unused");
  Sweep();
  harness_.clock.Advance(absl::Hours(10));
  Sweep();
  EXPECT_TRUE(HasScene("scene"));
  EXPECT_FALSE(HasScene("unused"));
  EXPECT_THAT(harness_.queue->Delete(QueueHarness::Key("job")), IsOk());
  Sweep();
  harness_.clock.Advance(absl::Hours(9));
  Sweep();
  EXPECT_TRUE(HasScene("scene"));
  harness_.clock.Advance(absl::Hours(1));
  Sweep();
  EXPECT_FALSE(HasScene("scene"));
}

TEST_F(ResourceRetentionTest, ModelsGoOnlyWhenAsked) {
  const LeaseRef lease = harness_.Running("job");
  EXPECT_THAT(harness_.leases->CommitCheckpoint(lease, QueueHarness::Checkpoint(10)), IsOk());
  ModelSpec spec;
  spec.project = "default";
  spec.id = "model";
  spec.checkpoint = {QueueHarness::Key("job"), std::nullopt};
  ASSERT_THAT(harness_.models->Promote(spec), IsOk());
  harness_.clock.Advance(absl::Hours(24 * 365));
  Sweep();
  EXPECT_TRUE(deleted_models_.empty());
  Keep({.model_age = absl::Hours(24 * 365)});
  Sweep();
  EXPECT_EQ(deleted_models_, std::vector<std::string>{"model"});
}

TEST_F(ResourceRetentionTest, OldestRequestsOfAProjectAreForgottenAboveTheLimit) {
  Retention retention(harness_.state.get(), /*max_requests=*/1);
  JobSpec first = harness_.Spec(), second = harness_.Spec();
  first.request_id = kRequestA;
  second.request_id = kRequestB;
  const Job made = *harness_.queue->Create(first);
  harness_.clock.Advance(absl::Seconds(1));
  const Job kept = *harness_.queue->Create(second);
  EXPECT_THAT(retention.Sweep(), IsOk());
  EXPECT_EQ(harness_.queue->Create(second)->key, kept.key);
  EXPECT_NE(harness_.queue->Create(first)->key, made.key);
}

}  // namespace
}  // namespace nerf
