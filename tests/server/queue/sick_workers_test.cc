// Workers whose engines die and workers whose disks are full: where their jobs go.
#include "tests/testing/queue_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

class SickWorkersTest : public testing::Test {
 protected:
  SickWorkersTest() { harness_.AddScene(); }
  ~SickWorkersTest() override { harness_.leases.reset(); }

  void Connect(const std::string& worker) {
    WorkerDescription description;
    description.id = worker;
    description.session = "session-of-" + worker;
    description.methods = {"ngp"};
    ASSERT_THAT(workers_.Connect(description), IsOk());
  }
  void Create(const std::string& id) {
    ASSERT_THAT(harness_.queue->Create(harness_.Spec(id)), IsOk());
  }
  // The id of the job that the worker is granted; empty without one.
  std::string Take(const std::string& worker) {
    const auto grant = leases_.Acquire({worker, {"ngp"}});
    EXPECT_THAT(grant, IsOk());
    if (!grant->has_value()) return "";
    held_ = (*grant)->lease;
    return held_.job.id;
  }
  void Crash() { EXPECT_THAT(leases_.ReportEngineCrash(held_, "signal 11"), IsOk()); }
  void NoRoom() { EXPECT_THAT(leases_.Release(held_, QueueReason::kNoRoom), IsOk()); }
  void Commit() {
    EXPECT_THAT(leases_.CommitCheckpoint(held_, QueueHarness::Checkpoint(++step_)), IsOk());
  }
  void Finish() { EXPECT_THAT(leases_.Finish(held_, {}), IsOk()); }
  WorkerRecord Record(const std::string& worker) {
    return workers_.Find(worker).value_or(WorkerRecord());
  }

  QueueHarness harness_;
  WorkerTable workers_{&harness_.clock, absl::Hours(24)};
  LeaseTable leases_{harness_.state.get(), &workers_};
  LeaseRef held_;
  uint32_t step_ = 0;
};

TEST_F(SickWorkersTest, AfterACrashAJobGoesElsewhereFirst) {
  Connect("a");
  Connect("b");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  EXPECT_EQ(Take("a"), "");
  EXPECT_EQ(Take("b"), "one");
  Commit();
  Crash();
  EXPECT_EQ(Take("b"), "");
  EXPECT_EQ(Take("a"), "one") << "a checkpoint since it crashed there";
}

TEST_F(SickWorkersTest, WithoutAnotherWorkerItIsTriedWhereItCrashed) {
  Connect("a");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  EXPECT_EQ(Take("a"), "one");
}

TEST_F(SickWorkersTest, TheOthersBeingBusyForLongItGoesBackButNotForItsLastAttempt) {
  Connect("a");
  Connect("b");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  harness_.clock.Advance(LeaseTable::kElsewherePause);
  ASSERT_EQ(Take("a"), "one");
  Crash();
  harness_.clock.Advance(10 * LeaseTable::kElsewherePause);
  EXPECT_EQ(Take("a"), "");
  EXPECT_EQ(Take("b"), "one");
}

TEST_F(SickWorkersTest, RestartRemembersWhereAJobCrashed) {
  Connect("a");
  Create("one");
  ASSERT_EQ(Take("a"), "one");
  Crash();
  EXPECT_EQ(harness_.memory_store.Load()->jobs[0].crashed_on, std::vector<std::string>{"a"});
}

// An engine that dies at every training beside a healthy one.
TEST_F(SickWorkersTest, WorkerWhoseEngineAlwaysDiesFailsNoJobOfFifty) {
  constexpr int kJobs = 50;
  Connect("sick");
  Connect("healthy");
  for (int i = 0; i < kJobs; ++i) Create("job-" + std::to_string(i));
  int n_crashes = 0, n_done = 0;
  for (int round = 0; round < 1000 && n_done < kJobs; ++round) {
    harness_.clock.Advance(absl::Seconds(10));
    if (!Take("sick").empty()) {
      ++n_crashes;
      Crash();
    }
    if (!Take("healthy").empty()) {
      Commit();
      Finish();
      ++n_done;
    }
  }
  EXPECT_EQ(n_done, kJobs);
  EXPECT_LE(n_crashes, 10);
  for (int i = 0; i < kJobs; ++i) {
    EXPECT_EQ(harness_.StateOf("job-" + std::to_string(i)), JobState::kSucceeded);
  }
  EXPECT_EQ(Record("sick").state, WorkerState::kUnhealthy);
  EXPECT_THAT(Record("sick").state_message, testing::HasSubstr("died on"));
  EXPECT_EQ(Record("healthy").state, WorkerState::kIdle);
}

TEST_F(SickWorkersTest, JobThatAWorkerHasNoRoomForGoesToAnother) {
  Connect("full");
  Connect("roomy");
  Create("one");
  ASSERT_EQ(Take("full"), "one");
  NoRoom();
  EXPECT_EQ(harness_.Get("one").queue_reason, QueueReason::kNoRoom);
  EXPECT_EQ(Take("full"), "");
  EXPECT_EQ(Take("roomy"), "one");
}

TEST_F(SickWorkersTest, JobThatNobodyHasRoomForWaitsAsideWithGrowingPausesAndOthersStart) {
  Connect("a");
  Create("large");
  Create("small");
  int n_woken = 0;
  const auto subscription = leases_.SubscribeWork("a", [&] { ++n_woken; });
  absl::Duration pause = LeaseTable::kFirstNoRoomPause;
  ASSERT_EQ(Take("a"), "large");
  NoRoom();
  ASSERT_EQ(Take("a"), "small");
  Finish();
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(harness_.queue->PlaceOf(harness_.Get("large")).aside, pause);
    harness_.clock.Advance(pause - absl::Seconds(1));
    EXPECT_EQ(Take("a"), "");
    harness_.clock.Advance(absl::Seconds(1));
    n_woken = 0;
    leases_.ExpireLeases();
    EXPECT_EQ(n_woken, 1);
    ASSERT_EQ(Take("a"), "large");
    NoRoom();
    pause = std::min(2 * pause, LeaseTable::kMaxNoRoomPause);
  }
}

}  // namespace
}  // namespace nerf
