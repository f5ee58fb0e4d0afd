// Deadlines, preemption and drained workers, on a queue without a network or a disk.
#include "server/queue/upkeep/job_upkeep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/upkeep/queue_admin.h"
#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

using absl::StatusCode;

class JobUpkeepTest : public testing::Test {
 protected:
  JobUpkeepTest() { harness_.AddScene(); }

  JobSpec SpecWith(const std::string& id, int priority) {
    JobSpec spec = harness_.Spec(id);
    spec.priority = priority;
    return spec;
  }
  absl::Time In(absl::Duration wait) { return harness_.clock.WallNow() + wait; }

  void Connect(const std::string& id) {
    WorkerDescription worker;
    worker.id = id;
    worker.session = "process-of-" + id;
    worker.device = "cpu";
    worker.methods = {"ngp"};
    connections_[id] = *workers_.Connect(worker);
  }
  // What a heartbeat of each worker does.
  void Beat(const std::string& id, const std::optional<LeaseRef>& lease) {
    workers_.Heard(id, connections_.at(id), /*draining=*/false,
                   lease.has_value() ? std::optional(lease->job) : std::nullopt);
    if (lease.has_value()) {
      EXPECT_THAT(leases_.Renew(*lease, WorkPhase::kRunning), IsOk());
    }
  }
  LeaseRef RunOn(const std::string& worker, const JobSpec& spec) {
    EXPECT_THAT(harness_.queue->Create(spec), IsOk());
    const LeaseRef lease = Acquire(worker).value();
    Beat(worker, lease);
    return lease;
  }
  std::optional<LeaseRef> Acquire(const std::string& worker) {
    const auto grant = leases_.Acquire({worker, {"ngp"}});
    EXPECT_THAT(grant, IsOk());
    return grant->has_value() ? std::optional((*grant)->lease) : std::nullopt;
  }
  LeaseOrder OrderOf(const LeaseRef& lease) { return OrderFor(harness_.Get(lease.job.id)); }
  void Advance(absl::Duration time) {
    harness_.clock.Advance(time);
    upkeep_.Tick();
  }

  QueueHarness harness_;
  WorkerTable workers_{&harness_.clock, harness_.options.lease_ttl};
  LeaseTable leases_{harness_.state.get(), &workers_};
  QueueAdmin admin_{harness_.state.get(), &workers_};
  JobUpkeep upkeep_{harness_.state.get(), &workers_};
  std::map<std::string, uint64_t> connections_;
};

TEST_F(JobUpkeepTest, JobThatNoWorkerTookByItsStartDeadlineFails) {
  JobSpec spec = harness_.Spec("late");
  spec.start_by = In(absl::Minutes(5));
  EXPECT_THAT(harness_.queue->Create(spec), IsOk());
  Advance(absl::Minutes(5) - absl::Seconds(1));
  EXPECT_EQ(harness_.StateOf("late"), JobState::kQueued);
  Advance(absl::Seconds(1));
  const Job job = harness_.Get("late");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error.code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(job.error.reason, reason::kStartDeadlineExceeded);
}

TEST_F(JobUpkeepTest, StartDeadlineMeansNothingOnceAWorkerHadTheJob) {
  JobSpec spec = harness_.Spec("early");
  spec.start_by = In(absl::Minutes(5));
  EXPECT_THAT(harness_.queue->Create(spec), IsOk());
  const LeaseRef lease = harness_.Grant();
  EXPECT_THAT(harness_.leases->Release(lease), IsOk());
  Advance(absl::Minutes(6));
  EXPECT_EQ(harness_.StateOf("early"), JobState::kQueued);
}

TEST_F(JobUpkeepTest, RunningJobGetsALeaseTtlToCommitBeforeItsEndDeadlineFailsIt) {
  JobSpec spec = harness_.Spec("long");
  spec.end_by = In(absl::Minutes(5));
  EXPECT_THAT(harness_.queue->Create(spec), IsOk());
  const LeaseRef lease = harness_.Grant();
  EXPECT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning), IsOk());
  Advance(absl::Minutes(5));
  EXPECT_EQ(OrderOf(lease), LeaseOrder::kCheckpointAndStop);
  EXPECT_THAT(harness_.leases->CommitCheckpoint(lease, QueueHarness::Checkpoint(10)), IsOk());
  EXPECT_THAT(harness_.leases->Release(lease), IsOk());
  const Job job = harness_.Get("long");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error.reason, reason::kEndDeadlineExceeded);
  EXPECT_EQ(QueueHarness::Steps(job), (std::vector<uint32_t>{10}));
}

TEST_F(JobUpkeepTest, WorkerThatDoesNotStopLosesTheJobAfterTheGrace) {
  JobSpec spec = harness_.Spec("stuck");
  spec.end_by = In(absl::Minutes(5));
  EXPECT_THAT(harness_.queue->Create(spec), IsOk());
  const LeaseRef lease = harness_.Grant();
  Advance(absl::Minutes(5));
  EXPECT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning), IsOk());
  Advance(harness_.options.lease_ttl);
  EXPECT_EQ(harness_.StateOf("stuck"), JobState::kFailed);
  EXPECT_THAT(harness_.leases->Renew(lease, WorkPhase::kRunning),
              FailsWith(StatusCode::kFailedPrecondition, reason::kLeaseFenced));
}

TEST_F(JobUpkeepTest, EndDeadlineFailsQueuedAndPausedJobs) {
  for (const std::string id : {"queued", "paused"}) {
    JobSpec spec = harness_.Spec(id);
    spec.end_by = In(absl::Minutes(5));
    EXPECT_THAT(harness_.queue->Create(spec), IsOk());
  }
  EXPECT_THAT(harness_.queue->Pause(QueueHarness::Key("paused")), IsOk());
  Advance(absl::Minutes(5));
  EXPECT_EQ(harness_.StateOf("queued"), JobState::kFailed);
  EXPECT_EQ(harness_.StateOf("paused"), JobState::kFailed);
}

TEST_F(JobUpkeepTest, DeadlineInThePastIsRefusedAndAnUpdateMovesOne) {
  JobSpec spec = harness_.Spec("one");
  spec.end_by = In(-absl::Seconds(1));
  EXPECT_THAT(harness_.queue->Create(spec),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  spec.end_by = In(absl::Minutes(5));
  const Job made = *harness_.queue->Create(spec);
  JobUpdate update;
  update.end_by = In(absl::Hours(1));
  const absl::StatusOr<Job> moved = harness_.queue->Update(made.key, update);
  ASSERT_THAT(moved, IsOk());
  EXPECT_NE(EtagOf(*moved), EtagOf(made));
  Advance(absl::Minutes(6));
  EXPECT_EQ(harness_.StateOf("one"), JobState::kQueued);
  update.end_by = absl::InfiniteFuture();
  EXPECT_THAT(harness_.queue->Update(made.key, update), IsOk());
  Advance(absl::Hours(2));
  EXPECT_EQ(harness_.StateOf("one"), JobState::kQueued);
}

TEST_F(JobUpkeepTest, ChangedDeadlinesAndThoseOfEndedJobsAreForgotten) {
  const auto n_deadlines = [&] {
    MutexLock lock(harness_.state->mu);
    return harness_.state->n_deadlines();
  };
  JobSpec spec = harness_.Spec("one");
  spec.start_by = In(absl::Hours(1));
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  for (int i = 1; i <= 10; ++i) {
    JobUpdate update;
    update.end_by = In(i * absl::Hours(1));  // the first is the same as start_by
    ASSERT_THAT(harness_.queue->Update(QueueHarness::Key("one"), update), IsOk());
    EXPECT_EQ(n_deadlines(), 2u);
  }
  ASSERT_THAT(harness_.queue->Cancel(QueueHarness::Key("one")), IsOk());
  EXPECT_EQ(n_deadlines(), 0u);
}

TEST_F(JobUpkeepTest, RepeatedRequestFindsItsJobAfterTheDeadline) {
  JobSpec spec = harness_.Spec();
  spec.request_id = kRequestA;
  spec.start_by = In(absl::Minutes(5));
  const Job made = *harness_.queue->Create(spec);
  Advance(absl::Minutes(6));
  const absl::StatusOr<Job> again = harness_.queue->Create(spec);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->key, made.key);
  EXPECT_EQ(again->state, JobState::kFailed);
}

TEST_F(JobUpkeepTest, DeadlinesSurviveARestart) {
  JobSpec spec = harness_.Spec("one");
  spec.end_by = In(absl::Minutes(5));
  EXPECT_THAT(harness_.queue->Create(spec), IsOk());
  harness_.Restart();
  JobUpkeep upkeep(harness_.state.get(), &workers_);
  harness_.clock.Advance(absl::Minutes(5));
  upkeep.Tick();
  EXPECT_EQ(harness_.StateOf("one"), JobState::kFailed);
}

TEST_F(JobUpkeepTest, HigherPriorityTakesTheWorkerOfALowerOneAtACheckpoint) {
  Connect("a");
  const LeaseRef low = RunOn("a", SpecWith("low", 0));
  EXPECT_THAT(harness_.queue->Create(SpecWith("urgent", 10)), IsOk());
  Advance(absl::Seconds(1));
  EXPECT_EQ(OrderOf(low), LeaseOrder::kTrain);  // it may find a free worker yet
  Advance(absl::Seconds(1));
  EXPECT_EQ(OrderOf(low), LeaseOrder::kCheckpointAndStop);
  EXPECT_THAT(leases_.Release(low), IsOk());
  EXPECT_EQ(harness_.Get("low").queue_reason, QueueReason::kPreempted);
  EXPECT_EQ(harness_.observer.attempts.back(), "preempted");
  Beat("a", std::nullopt);
  EXPECT_EQ(Acquire("a")->job.id, "urgent");
}

TEST_F(JobUpkeepTest, NothingIsPreemptedWhileAWorkerIsFree) {
  Connect("a");
  Connect("b");
  const LeaseRef low = RunOn("a", SpecWith("low", 0));
  EXPECT_THAT(harness_.queue->Create(SpecWith("urgent", 10)), IsOk());
  Advance(absl::Seconds(3));
  EXPECT_EQ(OrderOf(low), LeaseOrder::kTrain);
}

TEST_F(JobUpkeepTest, JobsOfEqualPriorityAreNotPreempted) {
  Connect("a");
  const LeaseRef first = RunOn("a", SpecWith("first", 5));
  EXPECT_THAT(harness_.queue->Create(SpecWith("second", 5)), IsOk());
  Advance(absl::Seconds(3));
  EXPECT_EQ(OrderOf(first), LeaseOrder::kTrain);
}

TEST_F(JobUpkeepTest, LowestPriorityGoesFirstAndOneAtATime) {
  Connect("a");
  Connect("b");
  const LeaseRef middle = RunOn("a", SpecWith("middle", 5));
  const LeaseRef low = RunOn("b", SpecWith("low", 0));
  EXPECT_THAT(harness_.queue->Create(SpecWith("urgent", 10)), IsOk());
  EXPECT_THAT(harness_.queue->Create(SpecWith("urgent-too", 10)), IsOk());
  Advance(absl::Seconds(2));
  Advance(absl::Seconds(2));
  EXPECT_EQ(OrderOf(low), LeaseOrder::kCheckpointAndStop);
  EXPECT_EQ(OrderOf(middle), LeaseOrder::kTrain);
}

TEST_F(JobUpkeepTest, JobIsPreemptedAtMostTwiceAnHour) {
  Connect("a");
  EXPECT_THAT(harness_.queue->Create(SpecWith("low", 0)), IsOk());
  LeaseRef low = *Acquire("a");
  Beat("a", low);
  for (int round = 0; round < 3; ++round) {
    const std::string urgent = "urgent-" + std::to_string(round);
    EXPECT_THAT(harness_.queue->Create(SpecWith(urgent, 10)), IsOk());
    Advance(absl::Seconds(2));
    if (round == 2) break;
    ASSERT_EQ(OrderOf(low), LeaseOrder::kCheckpointAndStop) << round;
    EXPECT_THAT(leases_.Release(low), IsOk());
    Beat("a", std::nullopt);
    const LeaseRef high = *Acquire("a");
    ASSERT_EQ(high.job.id, urgent);
    EXPECT_THAT(leases_.Finish(high, {}), IsOk());
    low = *Acquire("a");
    Beat("a", low);
  }
  EXPECT_EQ(OrderOf(low), LeaseOrder::kTrain);
}

// ---- Preemption of jobs on several workers, and for them.

class GangPreemptionTest : public JobUpkeepTest {
 protected:
  void ConnectToGangs(const std::string& id, const std::string& host = "host-1",
                      const std::string& device = "cpu") {
    WorkerDescription worker;
    worker.id = id;
    worker.session = "process-of-" + id;
    worker.device = device;
    worker.host = host;
    worker.methods = {"ngp"};
    worker.features = {"ranks", "ranks-cuda"};
    connections_[id] = *workers_.Connect(worker);
    asks_[id] = {id, {"ngp"}, host, GangDeviceOf(worker)};
    signals_.push_back(leases_.SubscribeWork(id, [] {}));
  }
  JobSpec GangSpec(const std::string& id, int priority, uint32_t min, uint32_t max) {
    JobSpec spec = SpecWith(id, priority);
    spec.training.workers = {min, max};
    return spec;
  }
  // The id of the job that the worker gets, which it then trains; empty without one.
  std::string Take(const std::string& worker) {
    const auto grant = leases_.Acquire(asks_.at(worker));
    EXPECT_THAT(grant, IsOk());
    if (!grant->has_value()) return "";
    held_[worker] = (*grant)->lease;
    return (*grant)->lease.job.id;
  }
  // What they get one after the other.
  std::string TakeInTurn(const std::vector<std::string>& workers) {
    std::string jobs;
    for (const std::string& worker : workers) jobs += Take(worker);
    return jobs;
  }
  void Create(const JobSpec& spec) { EXPECT_THAT(harness_.queue->Create(spec), IsOk()); }
  // Lets time pass with heartbeats of all workers.
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      for (const auto& [worker, ask] : asks_) {
        const auto held = held_.find(worker);
        Beat(worker, held == held_.end() ? std::nullopt : std::optional(held->second));
      }
      Advance(absl::Seconds(1));
    }
  }
  // The worker's job hands its workers back, as rank 0 does after the checkpoint.
  void GiveBack(const std::string& worker) {
    const LeaseRef lease = held_.at(worker);
    ASSERT_EQ(lease.part, 0u);
    EXPECT_THAT(leases_.Release(lease), IsOk());
    std::erase_if(held_, [&](const auto& each) { return each.second.job == lease.job; });
  }
  size_t NumberOfKept() {
    const MutexLock lock(harness_.state->mu);
    return harness_.state->reserved_workers().size();
  }
  bool IsStopped(const std::string& job) {
    return OrderFor(harness_.Get(job)) == LeaseOrder::kCheckpointAndStop;
  }

  std::map<std::string, GrantRequest> asks_;
  std::map<std::string, LeaseRef> held_;
  std::vector<std::unique_ptr<WorkSubscription>> signals_;
};

TEST_F(GangPreemptionTest, GangGivesWayToAHigherPriorityAndGoesOnAfterIt) {
  for (const char* worker : {"a", "b"}) ConnectToGangs(worker);
  Create(GangSpec("big", 0, 2, 2));
  EXPECT_EQ(Take("a"), "");
  ASSERT_EQ(Take("b"), "big");
  ASSERT_EQ(Take("a"), "big");
  Create(SpecWith("urgent", 10));
  Pass(1);
  EXPECT_FALSE(IsStopped("big"));
  Pass(2);
  ASSERT_TRUE(IsStopped("big"));
  EXPECT_EQ(*leases_.Renew(held_.at("a"), WorkPhase::kRunning), LeaseOrder::kTrain);  // rank 1
  EXPECT_THAT(leases_.CommitCheckpoint(held_.at("b"), QueueHarness::Checkpoint(40)), IsOk());
  GiveBack("b");
  EXPECT_EQ(harness_.Get("big").queue_reason, QueueReason::kPreempted);
  EXPECT_EQ(harness_.observer.attempts.back(), "preempted");
  EXPECT_EQ(TakeInTurn({"b", "a"}), "urgent");  // one of them, the other waits for it
  Pass(5);
  EXPECT_FALSE(IsStopped("urgent"));
  const std::string urgent = held_.begin()->first, other = urgent == "a" ? "b" : "a";
  EXPECT_THAT(leases_.Finish(held_.at(urgent), {}), IsOk());
  held_.clear();
  EXPECT_EQ(TakeInTurn({other, urgent, other}), "bigbig");
  EXPECT_EQ(harness_.Get("big").lease.epoch, 2u);
}

TEST_F(GangPreemptionTest, GangTakesAllWorkersOfJobsWithLowerPriorities) {
  for (const char* worker : {"a", "b"}) ConnectToGangs(worker);
  Create(SpecWith("low-1", 0));
  Create(SpecWith("low-2", 1));
  ASSERT_EQ(TakeInTurn({"a", "b"}), "low-2low-1");
  Create(SpecWith("later", 2));
  Create(GangSpec("urgent", 10, 2, 2));
  Pass(3);
  EXPECT_TRUE(IsStopped("low-1"));
  EXPECT_TRUE(IsStopped("low-2"));
  GiveBack("b");
  Pass(1);
  EXPECT_EQ(Take("b"), "");  // kept for the gang, though others wait
  // A checkpoint may take longer than workers are kept.
  Pass(60);
  EXPECT_EQ(Take("b"), "");
  GiveBack("a");
  ASSERT_EQ(Take("a"), "urgent");
  ASSERT_EQ(Take("b"), "urgent");
  EXPECT_EQ(harness_.Get("urgent").lease.members, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(NumberOfKept(), 0u);
}

TEST_F(GangPreemptionTest, NoMoreJobsStopThanTheGangNeeds) {
  for (const char* worker : {"a", "b", "c", "d"}) ConnectToGangs(worker);
  Create(SpecWith("middle", 5));
  ASSERT_EQ(Take("c"), "middle");
  Create(SpecWith("low", 0));
  ASSERT_EQ(Take("b"), "low");
  Create(GangSpec("pair", 3, 2, 2));
  EXPECT_EQ(Take("a"), "");
  ASSERT_EQ(Take("d"), "pair");
  ASSERT_EQ(Take("a"), "pair");
  ConnectToGangs("e");
  Create(GangSpec("urgent", 10, 3, 8));
  Pass(3);
  // With the worker that is free, those of the pair are enough.
  EXPECT_TRUE(IsStopped("pair"));
  EXPECT_FALSE(IsStopped("low"));
  EXPECT_FALSE(IsStopped("middle"));
  Create(SpecWith("filler", 9));
  EXPECT_EQ(Take("e"), "");  // kept, too
  GiveBack("d");
  EXPECT_EQ(Take("a"), "");
  EXPECT_EQ(Take("d"), "urgent");
  EXPECT_EQ(harness_.Get("urgent").lease.members, (std::vector<std::string>{"d", "a", "e"}));
}

TEST_F(GangPreemptionTest, WorkersAreKeptForAGangForATimeAlone) {
  for (const char* worker : {"a", "b"}) ConnectToGangs(worker);
  Create(SpecWith("low", 0));
  ASSERT_EQ(Take("a"), "low");
  Create(GangSpec("urgent", 10, 2, 2));
  Pass(3);
  ASSERT_TRUE(IsStopped("low"));
  GiveBack("a");
  workers_.Heard("a", connections_.at("a"), /*draining=*/true, std::nullopt);
  asks_.erase("a");
  signals_.clear();  // the worker goes and never asks
  Create(SpecWith("small", 1));
  EXPECT_EQ(Take("b"), "");
  Pass(static_cast<int>(absl::ToInt64Seconds(harness_.options.lease_ttl)));
  EXPECT_EQ(Take("b"), "small");
}

TEST_F(GangPreemptionTest, NobodyStopsForAGangThatDoesNotStartByThat) {
  ConnectToGangs("a");
  ConnectToGangs("b", "host-2");            // no network
  ConnectToGangs("c", "host-1", "cuda:0");  // another kind of device
  ConnectToGangs("d");
  for (const char* worker : {"a", "b", "c"}) {
    Create(SpecWith("low-" + std::string(worker), 0));
    ASSERT_EQ(Take(worker), "low-" + std::string(worker));
  }
  Create(SpecWith("equal", 10));
  ASSERT_EQ(Take("d"), "equal");
  Create(GangSpec("urgent", 10, 2, 2));
  Pass(5);
  for (const char* job : {"low-a", "low-b", "low-c", "equal"}) EXPECT_FALSE(IsStopped(job)) << job;
  EXPECT_EQ(NumberOfKept(), 0u);
}

TEST_F(GangPreemptionTest, NobodyStopsForAGangWhoseWorkersAreFree) {
  for (const char* worker : {"a", "b", "c"}) ConnectToGangs(worker);
  Create(SpecWith("low", 0));
  ASSERT_EQ(Take("a"), "low");
  Create(GangSpec("urgent", 10, 2, 3));
  Pass(5);
  EXPECT_FALSE(IsStopped("low"));
}

TEST_F(JobUpkeepTest, DrainedWorkerGivesItsJobBackAndGetsNoOther) {
  Connect("a");
  const LeaseRef lease = RunOn("a", harness_.Spec("one"));
  const auto drained = admin_.SetDrained("a", true);
  ASSERT_THAT(drained, IsOk());
  EXPECT_EQ(drained->state, WorkerState::kDraining);
  Advance(absl::Seconds(1));
  EXPECT_EQ(OrderOf(lease), LeaseOrder::kCheckpointAndStop);
  EXPECT_THAT(leases_.Release(lease), IsOk());
  EXPECT_EQ(harness_.Get("one").queue_reason, QueueReason::kWorkerDrained);
  Beat("a", std::nullopt);
  EXPECT_EQ(Acquire("a"), std::nullopt);
  EXPECT_THAT(admin_.SetDrained("a", false), IsOk());
  EXPECT_EQ(Acquire("a")->job.id, "one");
}

TEST_F(JobUpkeepTest, DrainedWorkerGivesItsPoseJobBack) {
  Connect("a");
  JobSpec spec;
  spec.project = "default";
  spec.id = "fox";
  spec.kind = JobKind::kPose;
  spec.pose.files = {{"a.jpg", QueueHarness::Blob("a")}};
  ASSERT_THAT(harness_.queue->Create(spec), IsOk());
  const LeaseRef lease = (*leases_.Acquire({"a", {"colmap"}}))->lease;
  ASSERT_THAT(admin_.SetDrained("a", true), IsOk());
  Advance(absl::Seconds(1));
  EXPECT_EQ(leases_.OrderOf(lease), LeaseOrder::kCheckpointAndStop);
  EXPECT_THAT(leases_.Release(lease), IsOk());
  const Job job = *harness_.queue->Get(QueueHarness::Key("fox"));
  EXPECT_EQ(job.queue_reason, QueueReason::kWorkerDrained);
  EXPECT_EQ(job.crashes_in_row, 0u);
}

TEST_F(JobUpkeepTest, DrainLastsAcrossARestartOfTheServer) {
  Connect("a");
  EXPECT_THAT(admin_.SetDrained("a", true), IsOk());
  EXPECT_THAT(admin_.SetDrained("b", true),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  harness_.Restart();
  WorkerTable workers(&harness_.clock, harness_.options.lease_ttl);
  QueueAdmin admin(harness_.state.get(), &workers);
  EXPECT_FALSE(workers.MayTakeJob("a"));
  ASSERT_EQ(workers.List()->size(), 1U);
  EXPECT_TRUE(workers.List()->at(0).drained);
  EXPECT_THAT(admin.SetDrained("a", false), IsOk());
  EXPECT_TRUE(workers.MayTakeJob("a"));
  EXPECT_TRUE(workers.List()->empty());
}

}  // namespace
}  // namespace nerf
