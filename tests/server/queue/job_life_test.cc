// Pause, update, retry, cancel with a checkpoint, and filtered lists.
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_text.h"

namespace nerf {
namespace {

using enum JobState;
using absl::StatusCode;

class JobLifeTest : public testing::Test {
 protected:
  JobLifeTest() { harness_.AddScene(); }
  JobQueue& queue() { return *harness_.queue; }
  LeaseTable& leases() { return *harness_.leases; }
  static ResourceKey Key(const std::string& id) { return QueueHarness::Key(id); }
  Job Create(const std::string& id) {
    const auto job = queue().Create(harness_.Spec(id));
    EXPECT_THAT(job, IsOk());
    return *job;
  }
  JobSpec RetryOf(const std::string& id, const std::string& new_id = "") {
    JobSpec spec;
    spec.project = "default";
    spec.id = new_id;
    spec.retry_of = id;
    return spec;
  }

  QueueHarness harness_;
};

TEST_F(JobLifeTest, QueuedJobIsPausedAtOnceAndGrantedToNobodyUntilItIsResumed) {
  Create("one");
  EXPECT_EQ(queue().Pause(Key("one"))->state, kPaused);
  EXPECT_EQ(queue().Pause(Key("one"))->state, kPaused) << "may be repeated";
  harness_.Restart();
  EXPECT_EQ(leases().Acquire({"w", {}})->has_value(), false);
  EXPECT_EQ(queue().Resume(Key("one"))->state, kQueued);
  EXPECT_EQ(harness_.Grant().job.id, "one");
}

TEST_F(JobLifeTest, JobOnAWorkerIsPausedWhenItsWorkerHasReleasedIt) {
  const LeaseRef lease = harness_.Running("one");
  EXPECT_EQ(queue().Pause(lease.job)->state, kPausing);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning),
              IsOkAndHolds(LeaseOrder::kCheckpointAndStop));
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(7)), IsOk());
  EXPECT_EQ(leases().Release(lease)->state, kPaused);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), StatusIs(StatusCode::kFailedPrecondition))
      << "the lease is over";
  EXPECT_EQ(queue().Resume(lease.job)->state, kQueued);
  const auto grant = leases().Acquire({"other", {}});
  ASSERT_TRUE(grant.ok() && grant->has_value());
  EXPECT_EQ((*grant)->resume->step, 7u);
}

TEST_F(JobLifeTest, JobResumedWhilePausingIsQueuedOnceItsWorkerHasReleasedIt) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(queue().Pause(lease.job), IsOk());
  EXPECT_EQ(queue().Resume(lease.job)->state, kPreparing);
  EXPECT_EQ(queue().Resume(lease.job)->state, kPreparing) << "may be repeated";
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning),
              IsOkAndHolds(LeaseOrder::kCheckpointAndStop));
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(7)), IsOk());
  const auto released = leases().Release(lease);
  ASSERT_THAT(released, IsOk());
  EXPECT_EQ(released->state, kQueued);
  EXPECT_EQ(released->queue_reason, QueueReason::kNone);
  const auto grant = leases().Acquire({"other", {}});
  ASSERT_TRUE(grant.ok() && grant->has_value());
  EXPECT_EQ((*grant)->resume->step, 7u);
  EXPECT_EQ((*grant)->job.stop, StopCause::kNone);
}

TEST_F(JobLifeTest, JobResumedWhilePausingIsNotPausedByARestart) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(queue().Pause(lease.job), IsOk());
  ASSERT_THAT(queue().Resume(lease.job), IsOk());
  harness_.Restart();
  EXPECT_EQ(leases().Release(lease)->state, kQueued);
}

TEST_F(JobLifeTest, JobResumedAndPausedAgainWhilePausingIsPaused) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(queue().Pause(lease.job), IsOk());
  ASSERT_THAT(queue().Resume(lease.job), IsOk());
  EXPECT_EQ(queue().Pause(lease.job)->state, kPausing);
  EXPECT_EQ(leases().Release(lease)->state, kPaused);
  EXPECT_EQ(queue().Resume(lease.job)->state, kQueued);
}

TEST_F(JobLifeTest, PreparingJobIsPausedToo) {
  Create("one");
  const LeaseRef lease = harness_.Grant();
  EXPECT_EQ(queue().Pause(lease.job)->state, kPausing);
  EXPECT_EQ(leases().Release(lease)->state, kPaused);
}

TEST_F(JobLifeTest, WorkerThatIsLostWhilePausingLeavesThePausedJob) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(queue().Pause(lease.job), IsOk());
  harness_.clock.Advance(harness_.options.lease_ttl + absl::Seconds(1));
  leases().ExpireLeases();
  EXPECT_EQ(harness_.StateOf("one"), kPaused);
}

TEST_F(JobLifeTest, FinalJobsAreNeitherPausedNorResumed) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().Finish(lease, {}), IsOk());
  for (const auto& result : {queue().Pause(lease.job), queue().Resume(lease.job)}) {
    EXPECT_THAT(result, FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  }
}

TEST_F(JobLifeTest, CancelWithKeepLetsTheWorkerCommitACheckpointFirst) {
  const LeaseRef lease = harness_.Running("one");
  EXPECT_EQ(queue().Cancel(lease.job, /*keep_checkpoint=*/true)->state, kCancelling);
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning),
              IsOkAndHolds(LeaseOrder::kCheckpointAndStop));
  EXPECT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(7)), IsOk());
  EXPECT_EQ(leases().Release(lease)->state, kCancelled);
  EXPECT_EQ(QueueHarness::Steps(harness_.Get("one")), std::vector<uint32_t>{7});
}

TEST_F(JobLifeTest, SecondCancelWithoutKeepStopsAtOnce) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(queue().Cancel(lease.job, /*keep_checkpoint=*/true), IsOk());
  int n_orders = 0;
  const auto subscription = leases().SubscribeWork("worker-a", [&] { ++n_orders; });
  ASSERT_THAT(queue().Cancel(lease.job), IsOk());
  EXPECT_EQ(n_orders, 1) << "the worker is woken";
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kCancel));
}

TEST_F(JobLifeTest, UpdateChangesWhatItNamesAndTellsWatchers) {
  Create("one");
  auto watcher = queue().Watch(Key("one"), "", [] {});
  ASSERT_THAT(watcher, IsOk());
  QueueHarness::Drain(**watcher);
  JobUpdate update;
  update.labels = JobLabels{{"team", "blue"}, {"run", "7"}};
  ASSERT_THAT(queue().Update(Key("one"), update), IsOk());
  update = {};
  update.display_name = "night";
  update.some_labels = {{"run", std::nullopt}, {"best", "yes"}};
  const auto job = queue().Update(Key("one"), update);
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->display_name, "night");
  EXPECT_EQ(job->labels, (JobLabels{{"team", "blue"}, {"best", "yes"}}));
  EXPECT_EQ(job->state, kQueued);
  const auto events = QueueHarness::Drain(**watcher);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].kind, WatchEventKind::kUpdated);
  ASSERT_THAT(queue().Update(Key("one"), update), IsOk());
  EXPECT_TRUE(QueueHarness::Drain(**watcher).empty()) << "nothing has changed";
  watcher->reset();  // before the queue that it reads
  harness_.Restart();
  EXPECT_EQ(harness_.Get("one").labels, job->labels);
}

TEST_F(JobLifeTest, UpdateWithAnOldEtagIsRefused) {
  const Job before = Create("one");
  JobUpdate update;
  update.etag = EtagOf(before);
  update.priority = 3;
  ASSERT_THAT(queue().Update(Key("one"), update), IsOk());
  update.priority = 4;
  EXPECT_THAT(queue().Update(Key("one"), update),
              FailsWith(StatusCode::kAborted, reason::kEtagMismatch));
  EXPECT_EQ(harness_.Get("one").priority, 3);
}

TEST_F(JobLifeTest, BadUpdatesChangeNothing) {
  const Job before = Create("one");
  std::vector<JobUpdate> updates(5);
  updates[0].priority = kMaxPriority + 1;
  updates[1].labels = JobLabels{{"Team", "blue"}};
  updates[2].labels = JobLabels{{"team", std::string(64, 'x')}};
  updates[3].display_name = "\n";
  for (size_t i = 0; i <= kMaxLabels; ++i) updates[4].some_labels["k" + std::to_string(i)] = "";
  for (const JobUpdate& update : updates) {
    EXPECT_THAT(queue().Update(Key("one"), update),
                FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  }
  EXPECT_EQ(EtagOf(harness_.Get("one")), EtagOf(before));
}

TEST_F(JobLifeTest, RetryGoesOnFromTheLastCheckpoint) {
  const LeaseRef lease = harness_.Running("one");
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(10, 20.0)), IsOk());
  ASSERT_THAT(leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(20, 19.0)), IsOk());
  JobUpdate update;
  update.labels = JobLabels{{"team", "blue"}};
  ASSERT_THAT(queue().Update(Key("one"), update), IsOk());
  JobOutcome failed;
  failed.kind = JobOutcome::Kind::kFailed;
  ASSERT_THAT(leases().Finish(lease, failed), IsOk());

  const auto retry = queue().Create(RetryOf("one", "two"));
  ASSERT_THAT(retry, IsOk());
  EXPECT_EQ(retry->retry_of, "one");
  EXPECT_EQ(TextOf(retry->training), TextOf(harness_.Get("one").training));
  EXPECT_EQ(retry->labels, (JobLabels{{"team", "blue"}}));
  EXPECT_EQ(QueueHarness::Steps(*retry), std::vector<uint32_t>{20});
  ASSERT_THAT(queue().Delete(Key("one")), IsOk());
  EXPECT_TRUE(harness_.state->ReachableBlobs().contains(
      QueueHarness::Checkpoint(20).checkpoint_blob.sha256));
  harness_.Restart();
  const auto grant = leases().Acquire({"w", {}});
  ASSERT_TRUE(grant.ok() && grant->has_value());
  EXPECT_EQ((*grant)->resume->step, 20u);
  EXPECT_THAT(leases().CommitCheckpoint((*grant)->lease, QueueHarness::Checkpoint(30)), IsOk());
}

TEST_F(JobLifeTest, RetryWithoutACheckpointStartsAnewAndMayBeRepeated) {
  Create("one");
  ASSERT_THAT(queue().Cancel(Key("one")), IsOk());
  JobSpec spec = RetryOf("one");
  spec.request_id = "6fa459ea-ee8a-4ca4-894e-db77e160355e";
  const auto first = queue().Create(spec);
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE(first->checkpoints.empty());
  EXPECT_EQ(queue().Create(spec)->key, first->key);
  spec.retry_of = "other";
  EXPECT_THAT(queue().Create(spec),
              FailsWith(StatusCode::kAlreadyExists, reason::kRequestIdReused));
}

TEST_F(JobLifeTest, OnlyJobsThatFailedOrWereCancelledAreRetried) {
  Create("queued");
  EXPECT_THAT(queue().Create(RetryOf("queued")),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  EXPECT_THAT(queue().Create(RetryOf("none")), StatusIs(StatusCode::kNotFound));
  ASSERT_THAT(queue().Cancel(Key("queued")), IsOk());
  const LeaseRef done = harness_.Running("done");
  ASSERT_THAT(leases().Finish(done, {}), IsOk());
  EXPECT_THAT(queue().Create(RetryOf("done")),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
}

TEST_F(JobLifeTest, ListShowsTheJobsThatTheFilterMatchesPageByPage) {
  for (int i = 0; i < 9; ++i) {
    JobSpec spec = harness_.Spec("j" + std::to_string(i));
    spec.labels = {{"parity", i % 2 == 0 ? "even" : "odd"}};
    ASSERT_THAT(queue().Create(spec), IsOk());
  }
  const JobFilter even = *JobFilter::Parse("labels.parity = even");
  PageRequest request;
  request.project = "default";
  request.page_size = 3;
  const auto first = queue().List(request, even);
  ASSERT_THAT(first, IsOk());
  std::vector<std::string> ids;
  for (const ListedJob& listed : first->records) ids.push_back(listed.row->job().key.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"j8", "j6", "j4"}));
  request.page_token = first->next_page_token;
  const auto second = queue().List(request, even);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->records.size(), 2u);
  EXPECT_EQ(second->next_page_token, "");
  EXPECT_THAT(queue().List(request), FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid))
      << "the token is of the list of another filter";
}

}  // namespace
}  // namespace nerf
