// Deadlines, preemption and drained workers, on a queue without a network or a disk.
#include "server/queue/job_upkeep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "common/error_reason.h"
#include "server/queue/queue_admin.h"
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
    return harness_.state->job_deadlines.size();
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

TEST_F(JobUpkeepTest, DrainLastsAcrossARestartOfTheServer) {
  Connect("a");
  EXPECT_THAT(admin_.SetDrained("a", true), IsOk());
  EXPECT_THAT(admin_.SetDrained("b", true),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  harness_.Restart();
  WorkerTable workers(&harness_.clock, harness_.options.lease_ttl);
  QueueAdmin admin(harness_.state.get(), &workers);
  EXPECT_FALSE(workers.MayTakeJob("a"));
  ASSERT_EQ(workers.List().size(), 1U);
  EXPECT_TRUE(workers.List()[0].drained);
  EXPECT_THAT(admin.SetDrained("a", false), IsOk());
  EXPECT_TRUE(workers.MayTakeJob("a"));
  EXPECT_TRUE(workers.List().empty());
}

}  // namespace
}  // namespace nerf
