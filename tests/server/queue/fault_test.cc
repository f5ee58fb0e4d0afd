// A store that refuses writes. What a refused commit leaves is tested on every store in
// tests/server/store/store_conformance_test.cc.
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

TEST(FaultTest, ProgressGoesOnWhenTheStoreIsFull) {
  QueueHarness harness;
  harness.AddScene();
  const LeaseRef lease = harness.Running("one");
  const auto watcher = *harness.queue->Watch(lease.job, "", [] {});
  EXPECT_TRUE(watcher->TryNext().has_value());
  harness.memory_store.before_commit = [](int) { return absl::UnavailableError("full"); };
  harness.clock.Advance(absl::Seconds(20));
  internal::JobProgress progress;
  progress.mutable_training()->set_step(9);
  EXPECT_THAT(harness.leases->ReportProgress(lease, progress), IsOkAndHolds(LeaseOrder::kTrain));
  EXPECT_EQ(watcher->TryNext()->job.progress.training().step(), 9u);
  EXPECT_THAT(harness.queue->Cancel(lease.job), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(harness.StateOf("one"), JobState::kRunning);
  EXPECT_THAT(harness.leases->Renew(lease, WorkPhase::kRunning), IsOk());
}

}  // namespace
}  // namespace nerf
