// Gangs in the queue: several workers are granted one training together, renew, break and start
// again. The workers are calls of this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "common/messages/worker_limits.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using absl::StatusCode;

class GangLeasesTest : public testing::Test {
 protected:
  void SetUp() override { harness_.AddScene(); }

  LeaseTable& leases() { return *harness_.leases; }

  void Connect(const std::string& worker, const std::string& host = "host-1", bool network = false,
               std::optional<GangDevice> device = GangDevice::kCpu) {
    requests_[worker] = {worker, {"ngp"}, host, device, network};
    wakes_[worker] = 0;
    subscriptions_[worker] = leases().SubscribeWork(worker, [this, worker] { ++wakes_[worker]; });
  }
  void Disconnect(const std::string& worker) { subscriptions_.erase(worker); }

  std::optional<LeaseGrant> Ask(const std::string& worker) {
    auto grant = leases().Acquire(requests_.at(worker));
    EXPECT_THAT(grant, IsOk());
    return *grant;
  }

  Job Create(const std::string& id, uint32_t min, uint32_t max, double seconds = 0,
             GangDevice device = GangDevice::kCpu) {
    JobSpec spec = harness_.Spec(id);
    spec.training.workers = {min, max};
    spec.training.gang_device = device;
    if (seconds > 0) {
      spec.training.config.set_seconds(seconds);
    }
    auto job = harness_.queue->Create(spec);
    EXPECT_THAT(job, IsOk());
    return *job;
  }

  // A gang of worker-a (rank 0) and worker-b that trains "big".
  std::pair<LeaseRef, LeaseRef> RunningPair() {
    Connect("worker-a");
    Connect("worker-b");
    Create("big", 2, 2);
    EXPECT_FALSE(Ask("worker-b").has_value());
    const auto first = Ask("worker-a"), second = Ask("worker-b");
    EXPECT_TRUE(first.has_value() && second.has_value());
    EXPECT_THAT(leases().Renew(second->lease, WorkPhase::kRunning), IsOk());
    EXPECT_THAT(leases().Renew(first->lease, WorkPhase::kRunning), IsOk());
    return {first->lease, second->lease};
  }

  QueueHarness harness_;
  std::map<std::string, GrantRequest> requests_;
  std::map<std::string, int> wakes_;
  std::map<std::string, std::unique_ptr<WorkSubscription>> subscriptions_;
};

TEST_F(GangLeasesTest, AllMembersAreGrantedByOneChangeOrNone) {
  Connect("worker-a");
  Connect("worker-b");
  Create("big", 2, 2);
  EXPECT_FALSE(Ask("worker-a").has_value());
  EXPECT_EQ(harness_.StateOf("big"), JobState::kQueued);
  EXPECT_EQ(harness_.Get("big").attempt, 0u);
  const int woken_before = wakes_["worker-a"];
  const auto asker = Ask("worker-b");
  ASSERT_TRUE(asker.has_value());
  const Job job = harness_.Get("big");
  EXPECT_EQ(job.lease.members, (std::vector<std::string>{"worker-b", "worker-a"}));
  EXPECT_EQ(job.lease.epoch, 1u);
  EXPECT_EQ(job.attempt, 1u);
  EXPECT_EQ(asker->lease.part, 0u);
  EXPECT_EQ(asker->n_ranks, 2u);
  EXPECT_GT(wakes_["worker-a"], woken_before);
  const auto other = Ask("worker-a");
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->lease.part, 1u);
  EXPECT_EQ(other->lease.epoch, 1u);
  EXPECT_TRUE(other->one_host);
}

TEST_F(GangLeasesTest, StoreThatRefusesAGangGrantsNobody) {
  Connect("worker-a");
  Connect("worker-b");
  Create("big", 2, 2);
  EXPECT_FALSE(Ask("worker-a").has_value());
  harness_.memory_store.before_commit = [](int) { return absl::UnavailableError("full"); };
  EXPECT_THAT(leases().Acquire(requests_.at("worker-b")), testing::Not(IsOk()));
  harness_.memory_store.before_commit = nullptr;
  EXPECT_EQ(harness_.StateOf("big"), JobState::kQueued);
  const auto again = Ask("worker-a");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->lease.epoch, 1u);
  EXPECT_TRUE(Ask("worker-b").has_value());
}

TEST_F(GangLeasesTest, AsManyMembersAsAreFreeUpToMax) {
  for (const char* worker : {"worker-a", "worker-b", "worker-c", "worker-d"}) Connect(worker);
  for (const char* worker : {"worker-a", "worker-b", "worker-c", "worker-d"}) {
    EXPECT_FALSE(Ask(worker).has_value());
  }
  Create("three", 1, 3);
  ASSERT_TRUE(Ask("worker-d").has_value());
  EXPECT_EQ(harness_.Get("three").lease.members,
            (std::vector<std::string>{"worker-d", "worker-a", "worker-b"}));
  Create("alone", 1, 4);
  const auto alone = Ask("worker-c");
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->n_ranks, 1u);
}

TEST_F(GangLeasesTest, OneHostComesFirstThenTheNetwork) {
  Connect("worker-a", "host-1", true);
  Connect("worker-b", "host-2", true);
  Connect("worker-c", "host-2", true);
  Connect("worker-d", "host-3");
  for (const char* worker : {"worker-a", "worker-b", "worker-d"}) Ask(worker);
  Create("pair", 2, 2);
  const auto pair = Ask("worker-c");
  ASSERT_TRUE(pair.has_value());
  EXPECT_TRUE(pair->one_host);
  EXPECT_EQ(pair->job.lease.members, (std::vector<std::string>{"worker-c", "worker-b"}));
  ASSERT_TRUE(Ask("worker-b").has_value());
  ASSERT_THAT(leases().Release(pair->lease), IsOk());
  // worker-d names no network, and worker-a is alone on its host.
  leases().Withdraw("worker-b");
  EXPECT_FALSE(Ask("worker-d").has_value());
  const auto wide = Ask("worker-a");
  EXPECT_FALSE(wide.has_value());  // worker-c has not asked again
  const auto third = Ask("worker-c");
  ASSERT_TRUE(third.has_value());
  EXPECT_FALSE(third->one_host);
  EXPECT_EQ(third->job.lease.members, (std::vector<std::string>{"worker-c", "worker-a"}));
}

TEST_F(GangLeasesTest, DevicesOfTwoKindsNeverShareAGang) {
  const auto on = [&](const std::string& worker, std::optional<GangDevice> device) {
    Connect(worker, "host-1", /*network=*/true, device);
    return Ask(worker);
  };
  Create("on-cuda", 2, 8, 0, GangDevice::kCuda);
  Create("on-cpus", 2, 8);
  EXPECT_FALSE(on("cuda-a", GangDevice::kCuda).has_value());
  EXPECT_FALSE(on("cpu-a", GangDevice::kCpu).has_value());
  EXPECT_FALSE(on("alone-a", std::nullopt).has_value());
  EXPECT_FALSE(Ask("cuda-a").has_value());
  const auto cpus = on("cpu-b", GangDevice::kCpu);
  ASSERT_TRUE(cpus.has_value());
  EXPECT_EQ(cpus->lease.job.id, "on-cpus");
  EXPECT_EQ(cpus->job.lease.members, (std::vector<std::string>{"cpu-b", "cpu-a"}));
  ASSERT_TRUE(Ask("cpu-a").has_value());
  const auto cuda = on("cuda-b", GangDevice::kCuda);
  ASSERT_TRUE(cuda.has_value());
  EXPECT_EQ(cuda->lease.job.id, "on-cuda");
  EXPECT_EQ(cuda->job.lease.members, (std::vector<std::string>{"cuda-b", "cuda-a"}));
  ASSERT_TRUE(Ask("cuda-a").has_value());
  // A lost member's place is not for a device of the other kind.
  EXPECT_FALSE(on("cpu-c", GangDevice::kCpu).has_value());
  Disconnect("cuda-a");
  ASSERT_THAT(leases().Release(cuda->lease, QueueReason::kWorkerLost, 1), IsOk());
  EXPECT_FALSE(Ask("cpu-c").has_value());
  EXPECT_FALSE(Ask("cuda-b").has_value());
  const auto again = on("cuda-c", GangDevice::kCuda);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->job.lease.members, (std::vector<std::string>{"cuda-c", "cuda-b"}));
}

TEST_F(GangLeasesTest, CudaDevicesOfAGangAreOfOneKind) {
  const auto on = [&](const std::string& worker, const std::string& hardware) {
    Connect(worker, "host-1", /*network=*/true, GangDevice::kCuda);
    requests_[worker].hardware = hardware;
    return Ask(worker);
  };
  Create("pair", 2, 8, 0, GangDevice::kCuda);
  EXPECT_FALSE(on("old-a", "an older one").has_value());
  EXPECT_FALSE(on("new-a", "a newer one").has_value());
  EXPECT_FALSE(on("none-a", "").has_value());
  const auto pair = on("new-b", "a newer one");
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(pair->job.lease.members, (std::vector<std::string>{"new-b", "new-a"}));
}

TEST_F(GangLeasesTest, OneWorkerOfAGangHasItsKindOfDevice) {
  Create("on-cuda", 1, 4, 0, GangDevice::kCuda);
  Connect("cpu-a");
  EXPECT_FALSE(Ask("cpu-a").has_value());
  Connect("cuda-a", "host-1", false, GangDevice::kCuda);
  ASSERT_TRUE(Ask("cuda-a").has_value());
  EXPECT_EQ(harness_.Get("on-cuda").lease.members, std::vector<std::string>{"cuda-a"});
}

TEST_F(GangLeasesTest, KindOfDeviceOutlastsARestartOfTheServer) {
  Create("on-cuda", 2, 2, 0, GangDevice::kCuda);
  Create("on-cpus", 2, 2);
  harness_.Restart();
  EXPECT_EQ(harness_.Get("on-cuda").training.gang_device, GangDevice::kCuda);
  EXPECT_EQ(harness_.Get("on-cpus").training.gang_device, GangDevice::kCpu);
}

TEST_F(GangLeasesTest, GangOfTheOtherKindHoldsNobodyUp) {
  Connect("cuda-a", "host-1", false, GangDevice::kCuda);
  Connect("cuda-b", "host-1", false, GangDevice::kCuda);
  Create("busy", 1, 1, 600);
  ASSERT_TRUE(Ask("cuda-a").has_value());
  EXPECT_FALSE(Ask("cuda-b").has_value());
  Create("on-cuda", 2, 2, 0, GangDevice::kCuda);
  Create("long", 1, 1, 10000);
  Connect("cpu-a");
  EXPECT_EQ(Ask("cpu-a")->lease.job.id, "long");
}

TEST(GangDeviceTest, FeaturesThatDoNotFitTheDeviceCountForNothing) {
  const auto worker = [](const std::string& device, const std::vector<std::string>& features) {
    return WorkerDescription{"w-1", "s-1", device, "hardware", "", "host-1", {"ngp"}, features};
  };
  const auto device_of = [&](const std::string& device, const std::vector<std::string>& features) {
    return GangDeviceOf(worker(device, features));
  };
  EXPECT_EQ(GangHardwareOf(worker("cpu", {"ranks"})), "");
  EXPECT_EQ(GangHardwareOf(worker("cuda:0", {"ranks-cuda"})), "hardware");
  EXPECT_EQ(device_of("cpu", {"ranks"}), GangDevice::kCpu);
  EXPECT_EQ(device_of("cuda:1", {"render", "ranks-cuda"}), GangDevice::kCuda);
  EXPECT_EQ(device_of("cpu", {"ranks", "ranks-cuda"}), GangDevice::kCpu);
  EXPECT_EQ(device_of("cpu", {"ranks-cuda"}), std::nullopt);
  EXPECT_EQ(device_of("cuda:0", {"ranks", "ranks-network"}), std::nullopt);
  for (const char* device : {"", "cuda", "CPU", "tpu:0"}) {
    EXPECT_EQ(device_of(device, {"ranks", "ranks-cuda"}), std::nullopt) << device;
  }
}

TEST_F(GangLeasesTest, GangLivesAsLongAsItsSlowestHeartbeat) {
  const auto [first, second] = RunningPair();
  for (int i = 0; i < 5; ++i) {
    harness_.clock.Advance(harness_.options.lease_ttl / 2);
    ASSERT_THAT(leases().Renew(first, WorkPhase::kRunning), IsOk());
    if (i < 3) {
      ASSERT_THAT(leases().Renew(second, WorkPhase::kRunning), IsOk());
    }
    harness_.Tick();
    if (i < 3) {
      ASSERT_EQ(harness_.StateOf("big"), JobState::kRunning);
    }
    if (harness_.StateOf("big") == JobState::kQueued) break;
  }
  const Job job = harness_.Get("big");
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.queue_reason, QueueReason::kWorkerLost);
  EXPECT_EQ(job.queue_message, "rank 1 (worker worker-b) was lost");
  // Nobody takes a broken gang's lease up again.
  for (const LeaseRef& lease : {first, second}) {
    EXPECT_TRUE(IsLeaseOver(job, lease));
    EXPECT_THAT(leases().Renew(lease, WorkPhase::kRunning),
                FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  }
}

TEST_F(GangLeasesTest, LostMembersPlaceIsTakenFromTheLastCheckpoint) {
  const auto [first, second] = RunningPair();
  ASSERT_THAT(leases().CommitCheckpoint(first, QueueHarness::Checkpoint(40)), IsOk());
  Connect("worker-c");
  EXPECT_FALSE(Ask("worker-c").has_value());
  Disconnect("worker-b");
  const auto broken = leases().Release(first, QueueReason::kWorkerLost, 1);
  ASSERT_THAT(broken, IsOk());
  EXPECT_EQ(broken->queue_message, "rank 1 (worker worker-b) was lost");
  EXPECT_EQ(broken->crashes_in_row, 0u);
  const auto again = Ask("worker-a");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->job.lease.members, (std::vector<std::string>{"worker-a", "worker-c"}));
  EXPECT_EQ(again->lease.epoch, 2u);
  ASSERT_TRUE(again->resume.has_value());
  EXPECT_EQ(again->resume->step, 40u);
  EXPECT_THAT(leases().Renew(second, WorkPhase::kRunning),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
}

TEST_F(GangLeasesTest, DisconnectedMemberIsNamedBeforeTheOneThatWasReported) {
  Connect("worker-c");
  EXPECT_FALSE(Ask("worker-c").has_value());
  Connect("worker-a");
  Connect("worker-b");
  EXPECT_FALSE(Ask("worker-b").has_value());
  Create("big", 3, 3);
  const auto first = Ask("worker-a");
  ASSERT_TRUE(first.has_value());
  Disconnect("worker-c");
  EXPECT_EQ(leases().Release(first->lease, QueueReason::kWorkerLost, 1)->queue_message,
            "rank 2 (worker worker-c) was lost");
}

TEST_F(GangLeasesTest, RanksThatCannotReachEachOtherFailTheJobAfterThreeTries) {
  RunningPair();
  for (int i = 0; i < harness_.options.max_attempts; ++i) {
    const Job job = harness_.Get("big");
    ASSERT_EQ(job.state, i == 0 ? JobState::kRunning : JobState::kPreparing);
    const LeaseRef lease = {job.key, job.lease.members[0], job.lease.epoch, 0};
    ASSERT_THAT(leases().Release(lease, QueueReason::kWorkerLost), IsOk());
    Ask("worker-a");
    Ask("worker-b");
  }
  const Job job = harness_.Get("big");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error.reason, reason::kWorkerLost);
}

TEST_F(GangLeasesTest, RankZeroAloneCommitsAndFinishes) {
  const auto [first, second] = RunningPair();
  EXPECT_THAT(leases().CommitCheckpoint({second.job, "worker-b", second.epoch},
                                        QueueHarness::Checkpoint(1)),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  internal::JobProgress progress;
  progress.mutable_training()->set_step(7);
  EXPECT_THAT(leases().ReportProgress(second, progress), IsOk());
  EXPECT_EQ(harness_.Get("big").progress.training().step(), 0u);
  EXPECT_THAT(leases().Finish(second, {}),
              FailsWith(StatusCode::kFailedPrecondition, reason::kStateConflict));
  EXPECT_THAT(leases().Finish(first, {}), IsOk());
  const Job job = harness_.Get("big");
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_TRUE(IsLeaseOver(job, second));
  EXPECT_FALSE(IsLeaseOver(job, first));
  const MutexLock lock(harness_.state->mu);
  EXPECT_TRUE(harness_.state->lease_deadlines().empty());
}

TEST_F(GangLeasesTest, CrashAndFailureOfAnyRankNameIt) {
  auto [first, second] = RunningPair();
  const auto crashed = leases().ReportEngineCrash(second, "signal 11");
  ASSERT_THAT(crashed, IsOk());
  EXPECT_EQ(crashed->queue_message, "the engine of rank 1 (worker worker-b) died: signal 11");
  EXPECT_EQ(crashed->crashed_on, std::vector<std::string>{"worker-b"});
  EXPECT_FALSE(Ask("worker-b").has_value());
  const auto again = Ask("worker-a");
  ASSERT_TRUE(again.has_value());
  JobOutcome failed;
  failed.kind = JobOutcome::Kind::kFailed;
  failed.error.message = "no such picture";
  const auto job = leases().Finish({again->lease.job, "worker-b", again->lease.epoch, 1}, failed);
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->error.message, "no such picture, on rank 1 (worker worker-b)");
}

TEST_F(GangLeasesTest, PauseIsRankZerosOrder) {
  const auto [first, second] = RunningPair();
  ASSERT_THAT(harness_.queue->Pause(QueueHarness::Key("big")), IsOk());
  EXPECT_EQ(*leases().Renew(second, WorkPhase::kRunning), LeaseOrder::kTrain);
  EXPECT_EQ(*leases().Renew(first, WorkPhase::kRunning), LeaseOrder::kCheckpointAndStop);
  ASSERT_THAT(leases().Release(first), IsOk());
  EXPECT_EQ(harness_.StateOf("big"), JobState::kPaused);
  EXPECT_TRUE(IsLeaseOver(harness_.Get("big"), second));
}

TEST_F(GangLeasesTest, MembersHoldTheirLeasesAcrossARestartOfTheServer) {
  const auto [first, second] = RunningPair();
  subscriptions_.clear();
  harness_.Restart();
  EXPECT_EQ(harness_.Get("big").training.workers, (WorkerCount{2, 2}));
  Connect("worker-a");
  Connect("worker-b");
  ASSERT_THAT(leases().Attach("worker-a", std::vector<LeaseRef>{first}), IsOk());
  ASSERT_THAT(leases().Renew(second, WorkPhase::kRunning), IsOk());
  EXPECT_EQ(harness_.StateOf("big"), JobState::kRunning);
  // A member whose process is new ends it.
  ASSERT_THAT(leases().Attach("worker-b", std::vector<LeaseRef>{}), IsOk());
  EXPECT_EQ(harness_.Get("big").queue_message, "rank 1 (worker worker-b) was lost");
}

TEST_F(GangLeasesTest, TextsReachAllRanksOfTheEpochAndNobodyElse) {
  const auto [first, second] = RunningPair();
  EXPECT_TRUE(leases().TellRanks(first, 0, "address of a")->empty());
  EXPECT_TRUE(leases().TellRanks(first, 0, "said twice")->empty());
  const int woken_before = wakes_["worker-a"];
  EXPECT_EQ(*leases().TellRanks(second, 0, "address of b"),
            (std::vector<std::string>{"address of a", "address of b"}));
  EXPECT_GT(wakes_["worker-a"], woken_before);
  EXPECT_EQ(leases().RankTexts(first, 0)->size(), 2u);
  EXPECT_THAT(leases().TellRanks(first, kMaxRankTexts, "x"),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  EXPECT_THAT(leases().TellRanks(first, 1, std::string(kMaxRankTextBytes + 1, 'x')),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  // As a stranger, as another rank, with an older epoch.
  for (const LeaseRef& wrong : {LeaseRef{first.job, "worker-c", first.epoch, 1},
                                LeaseRef{first.job, "worker-a", first.epoch, 1},
                                LeaseRef{first.job, "worker-a", first.epoch, 9},
                                LeaseRef{first.job, "worker-a", first.epoch - 1, 0}}) {
    EXPECT_THAT(leases().TellRanks(wrong, 0, "x"),
                FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
  }
  ASSERT_THAT(leases().Release(first, QueueReason::kWorkerLost, 1), IsOk());
  Ask("worker-b");
  const auto again = Ask("worker-a");
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(leases().RankTexts(again->lease, 0)->empty());
}

// ---- Waiting.

TEST_F(GangLeasesTest, ShortJobsFillInWhileAGangWaits) {
  Connect("worker-a");
  Connect("worker-b");
  Create("busy", 1, 1, 300);
  ASSERT_EQ(Ask("worker-a")->lease.job.id, "busy");
  EXPECT_FALSE(Ask("worker-b").has_value());
  Create("big", 2, 2, 100);
  Create("long", 1, 1, 1000);
  Create("short", 1, 1, 60);
  const auto filler = Ask("worker-b");
  ASSERT_TRUE(filler.has_value());
  EXPECT_EQ(filler->lease.job.id, "short");
  harness_.clock.Advance(absl::Seconds(20));
  ASSERT_THAT(leases().Finish(filler->lease, {}), IsOk());
  EXPECT_FALSE(Ask("worker-b").has_value());  // "long" would end behind its time
}

TEST_F(GangLeasesTest, NothingFillsInOnceAGangIsOverdue) {
  Connect("worker-a");
  Connect("worker-b");
  Create("busy", 1, 1, 60);
  const auto busy = Ask("worker-a");
  EXPECT_FALSE(Ask("worker-b").has_value());
  Create("big", 2, 2);
  EXPECT_FALSE(Ask("worker-b").has_value());
  Create("tiny", 1, 1, 1);
  harness_.clock.Advance(absl::Seconds(70));
  ASSERT_THAT(leases().Renew(busy->lease, WorkPhase::kRunning), IsOk());
  EXPECT_FALSE(Ask("worker-b").has_value());
  ASSERT_THAT(leases().Finish(busy->lease, {}), IsOk());
  EXPECT_EQ(Ask("worker-a")->lease.job.id, "big");
}

TEST_F(GangLeasesTest, WorkersThatAGangDoesNotNeedGoOn) {
  Connect("worker-a");
  Connect("worker-b");
  Connect("worker-c");
  Create("one", 1, 1, 100);
  Create("two", 1, 1, 100);
  ASSERT_TRUE(Ask("worker-a").has_value() && Ask("worker-b").has_value());
  EXPECT_FALSE(Ask("worker-c").has_value());
  Create("big", 2, 2);
  Create("long", 1, 1, 10000);
  // worker-a and worker-b are free in time without worker-c.
  EXPECT_EQ(Ask("worker-c")->lease.job.id, "long");
}

TEST_F(GangLeasesTest, GangThatCannotBeHoldsNobodyUp) {
  Connect("worker-a");
  Connect("worker-b", "host-2");
  Create("big", 2, 2);
  Create("small", 1, 1);
  EXPECT_EQ(Ask("worker-a")->lease.job.id, "small");
}

}  // namespace
}  // namespace nerf
