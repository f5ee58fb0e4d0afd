// A store that hangs in commits until the test releases it. Tests which calls wait for it, which do
// not, and how concurrent changes behave.
#include <thread>

#include "tests/testing/forwarding_job_store.h"
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

// Commits to memory, one transaction per permit. Thread-safe.
class HangingStore final : public ForwardingJobStore {
 public:
  HangingStore() : ForwardingJobStore(&memory_) {}

  std::vector<absl::Status> CommitAll(std::span<const StoreWrite* const> writes) override {
    {
      MutexLock lock(mu_);
      sizes_.push_back(writes.size());
      changed_.NotifyAll();
      while (n_permits_ == 0 && !open_) changed_.Wait(mu_);
      if (!open_) --n_permits_;
      if (!refusal_.ok()) return std::vector<absl::Status>(writes.size(), refusal_);
    }
    return JobStore::CommitAll(writes);
  }

  // Waits until `n` transactions have begun.
  void AwaitTransactions(size_t n) {
    MutexLock lock(mu_);
    while (sizes_.size() < n) changed_.Wait(mu_);
  }
  void LetOneGo() {
    MutexLock lock(mu_);
    ++n_permits_;
    changed_.NotifyAll();
  }
  void Open() {
    MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Hang() {
    MutexLock lock(mu_);
    open_ = false;
    sizes_.clear();
  }
  void Refuse(absl::Status status) {
    MutexLock lock(mu_);
    refusal_ = std::move(status);
  }
  std::vector<size_t> sizes() const {
    MutexLock lock(mu_);
    return sizes_;
  }

 private:
  MemoryJobStore memory_;
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<size_t> sizes_ ABSL_GUARDED_BY(mu_);
  int n_permits_ ABSL_GUARDED_BY(mu_) = 0;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
};

class GroupCommitTest : public testing::Test {
 protected:
  GroupCommitTest() : harness_(&store_, {}, /*groups_commits=*/true) { harness_.AddScene(); }
  ~GroupCommitTest() override { store_.Open(); }

  JobQueue& queue() { return *harness_.queue; }
  LeaseTable& leases() { return *harness_.leases; }
  // Waits until everything that was submitted is applied.
  void Settle() {
    store_.Open();
    EXPECT_THAT(queue().Create(harness_.Spec()), IsOk());
  }

  HangingStore store_;
  QueueHarness harness_;
};

TEST_F(GroupCommitTest, WhileTheStoreHangsReadsAndHeartbeatsGoOn) {
  const LeaseRef lease = harness_.Running("one");
  Settle();
  const auto watcher = *queue().Watch(lease.job, "", [] {});
  EXPECT_TRUE(watcher->TryNext().has_value());
  store_.Hang();
  absl::StatusOr<Job> cancelled = absl::UnknownError("");
  std::thread canceller([&] { cancelled = queue().Cancel(lease.job); });
  store_.AwaitTransactions(1);

  EXPECT_EQ(harness_.StateOf("one"), JobState::kRunning) << "not durable, so not visible";
  EXPECT_THAT(queue().List({"default", 0, ""}), IsOk());
  EXPECT_EQ(queue().Stats().n_leases, 1u);
  EXPECT_THAT(harness_.state->ReachableBlobs(), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kTrain));
  harness_.clock.Advance(absl::Seconds(11));  // now progress is due to be stored
  internal::JobProgress progress;
  progress.mutable_training()->set_step(7);
  EXPECT_THAT(leases().ReportProgress(lease, progress), IsOkAndHolds(LeaseOrder::kTrain));
  EXPECT_EQ(watcher->TryNext()->job.progress.training().step(), 7u);

  store_.Open();
  canceller.join();
  ASSERT_THAT(cancelled, IsOk());
  EXPECT_EQ(cancelled->state, JobState::kCancelling);
  EXPECT_EQ(harness_.Get("one").progress.training().step(), 7u)
      << "the change was decided on an older copy";
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kCancel));
}

TEST_F(GroupCommitTest, HeartbeatThatMovesAJobDoesNotWaitForTheStore) {
  ASSERT_THAT(queue().Create(harness_.Spec("one")), IsOk());
  const LeaseRef lease = harness_.Grant();
  store_.Hang();
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kTrain));
  EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning), IsOkAndHolds(LeaseOrder::kTrain));
  EXPECT_EQ(harness_.StateOf("one"), JobState::kPreparing);
  Settle();
  EXPECT_EQ(harness_.StateOf("one"), JobState::kRunning);
  EXPECT_EQ(harness_.Get("one").last_event_sequence, 3u) << "moved once";
}

TEST_F(GroupCommitTest, WritesThatWaitGoIntoOneTransaction) {
  store_.Hang();
  std::vector<std::thread> clients;
  std::vector<absl::StatusOr<Job>> jobs(20, absl::UnknownError(""));
  clients.emplace_back([&] { jobs[0] = queue().Create(harness_.Spec("job-0")); });
  store_.AwaitTransactions(1);
  for (int i = 1; i < 20; ++i) {
    clients.emplace_back(
        [&, i] { jobs[i] = queue().Create(harness_.Spec("job-" + std::to_string(i))); });
  }
  EXPECT_THAT(queue().List({"default", 0, ""})->records, testing::IsEmpty());
  const auto n_submitted = [&] {
    MutexLock lock(harness_.state->mu);
    return harness_.state->jobs_in_creation().size();
  };
  while (n_submitted() < jobs.size()) std::this_thread::yield();
  store_.LetOneGo();
  store_.AwaitTransactions(2);
  store_.Open();
  for (std::thread& client : clients) client.join();
  for (const auto& job : jobs) EXPECT_THAT(job, IsOk());
  EXPECT_EQ(store_.sizes(), (std::vector<size_t>{1, 19}));
  EXPECT_EQ(queue().List({"default", 0, ""})->records.size(), 20u);
}

TEST_F(GroupCommitTest, OneRequestIdMakesOneJobHoweverManyAskAtOnce) {
  store_.Hang();
  JobSpec spec = harness_.Spec();
  spec.request_id = kRequestA;
  std::vector<std::thread> clients;
  std::vector<absl::StatusOr<Job>> jobs(8, absl::UnknownError(""));
  for (size_t i = 0; i < jobs.size(); ++i) {
    clients.emplace_back([&, i] { jobs[i] = queue().Create(spec); });
  }
  store_.AwaitTransactions(1);
  store_.Open();
  for (std::thread& client : clients) client.join();
  for (const auto& job : jobs) {
    ASSERT_THAT(job, IsOk());
    EXPECT_EQ(job->key, jobs[0]->key);
  }
  EXPECT_EQ(queue().List({"default", 0, ""})->records.size(), 1u);
}

TEST_F(GroupCommitTest, SceneOfAJobInCreationCannotBeDeleted) {
  store_.Hang();
  absl::StatusOr<Job> job = absl::UnknownError("");
  std::thread client([&] { job = queue().Create(harness_.Spec("one")); });
  store_.AwaitTransactions(1);
  EXPECT_THAT(harness_.scenes->Delete({"default", "scene"}),
              FailsWith(absl::StatusCode::kFailedPrecondition, reason::kStateConflict));
  store_.Open();
  client.join();
  EXPECT_THAT(job, IsOk());
}

TEST_F(GroupCommitTest, JobOfASceneThatIsBeingDeletedIsRefusedAfterIt) {
  store_.Hang();
  absl::Status deleted = absl::UnknownError("");
  std::thread deleter([&] { deleted = harness_.scenes->Delete({"default", "scene"}); });
  store_.AwaitTransactions(1);
  absl::StatusOr<Job> job = absl::UnknownError("");
  std::thread client([&] { job = queue().Create(harness_.Spec("one")); });
  store_.Open();
  deleter.join();
  client.join();
  EXPECT_THAT(deleted, IsOk());
  EXPECT_THAT(job, StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(GroupCommitTest, ChangesOfOneJobTakeTurns) {
  const LeaseRef lease = harness_.Running("one");
  Settle();
  store_.Hang();
  absl::StatusOr<CommittedCheckpoint> committed = absl::UnknownError("");
  absl::StatusOr<Job> finished = absl::UnknownError("");
  std::thread committer(
      [&] { committed = leases().CommitCheckpoint(lease, QueueHarness::Checkpoint(5)); });
  store_.AwaitTransactions(1);
  std::thread finisher([&] { finished = leases().Finish(lease, {}); });
  store_.Open();
  committer.join();
  finisher.join();
  EXPECT_THAT(committed, IsOk());
  ASSERT_THAT(finished, IsOk());
  EXPECT_EQ(finished->state, JobState::kSucceeded);
  EXPECT_EQ(QueueHarness::Steps(*finished), std::vector<uint32_t>{5});
}

TEST_F(GroupCommitTest, RefusedCommitLeavesNothingBehindAndTheNextOneWorks) {
  store_.Refuse(absl::UnavailableError("full"));
  JobSpec spec = harness_.Spec("one");
  spec.request_id = kRequestA;
  EXPECT_THAT(queue().Create(spec), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(queue().Get({"default", "one"}), StatusIs(absl::StatusCode::kNotFound));
  store_.Refuse(absl::OkStatus());
  EXPECT_THAT(queue().Create(spec), IsOk());
}

TEST_F(GroupCommitTest, LeaseThatEndsWhileTheStoreHangsIsStoredOnce) {
  const LeaseRef lease = harness_.Running("one");
  Settle();
  store_.Hang();
  harness_.clock.Advance(harness_.options.lease_ttl);
  for (int i = 0; i < 3; ++i) leases().ExpireLeases();
  EXPECT_EQ(harness_.StateOf("one"), JobState::kRunning);
  Settle();
  EXPECT_EQ(harness_.StateOf("one"), JobState::kQueued);
  EXPECT_EQ(harness_.observer.n_expired, 1);
}

}  // namespace
}  // namespace nerf
