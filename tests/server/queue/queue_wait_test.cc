#include "server/queue/leases/queue_wait.h"

#include <gtest/gtest.h>

#include "tests/testing/queue_harness.h"

namespace nerf {
namespace {

WorkerRecord Worker(const std::string& id, std::vector<std::string> methods,
                    const std::string& job = "") {
  WorkerRecord worker;
  worker.description.id = id;
  worker.description.methods = std::move(methods);
  worker.connected = true;
  worker.state = job.empty() ? WorkerState::kIdle : WorkerState::kBusy;
  if (!job.empty()) worker.job = ResourceKey{"default", job};
  return worker;
}

class QueueWaitTest : public testing::Test {
 protected:
  QueueWaitTest() { job_.training.config.set_method("ngp"); }
  std::string Reason(size_t n_ahead = 0) {
    const auto wait = Wait(n_ahead);
    return wait.has_value() ? std::string(wait->reason) : "";
  }
  std::string Message(size_t n_ahead = 0) { return Wait(n_ahead)->message; }
  std::optional<QueueWait> Wait(size_t n_ahead) {
    for (WorkerRecord& worker : workers_) {
      worker.capabilities = QueueHarness::CapabilitiesOf(worker);
    }
    return ExplainWait(job_, workers_, aside_, [&] { return n_ahead; });
  }

  Job job_;
  absl::Duration aside_ = absl::ZeroDuration();
  std::vector<WorkerRecord> workers_;
};

TEST_F(QueueWaitTest, NobodyConnectedIsSaidAlsoWhereWorkersAreLostOrLeave) {
  EXPECT_EQ(Reason(), "NO_WORKER");
  EXPECT_EQ(Message(), "no worker is connected");
  workers_ = {Worker("lost", {"ngp"}), Worker("leaves", {"ngp"}), Worker("away", {"ngp"})};
  workers_[0].state = WorkerState::kLost;
  workers_[1].state = WorkerState::kDraining;
  workers_[2].connected = false;
  EXPECT_EQ(Reason(), "NO_WORKER");
}

TEST_F(QueueWaitTest, OnlyDrainedWorkersAreNamed) {
  workers_ = {Worker("a", {"ngp"})};
  workers_[0].state = WorkerState::kDraining;
  workers_[0].drained = true;
  EXPECT_EQ(Reason(), "NO_WORKER");
  EXPECT_EQ(Message(), "worker a is drained");
}

TEST_F(QueueWaitTest, MethodThatNobodyHasIsNamedBesideThoseThereAre) {
  workers_ = {Worker("a", {"ngp"}), Worker("b", {"ngp", "other"}, "j-1")};
  job_.training.config.set_method("ngp-autograd");
  EXPECT_EQ(Reason(3), "NO_CAPABLE_WORKER");
  EXPECT_EQ(Message(3), "no connected worker has method ngp-autograd (there is ngp, other)");
}

TEST_F(QueueWaitTest, WorkersThatPoseAloneDoNotCountAsThoseOfTheirMethods) {
  workers_ = {Worker("a", {"ngp"})};
  workers_[0].description.features = {"poses-only", "colmap"};
  EXPECT_EQ(Reason(), "NO_CAPABLE_WORKER");
  EXPECT_EQ(Message(), "the connected workers take pose jobs alone");
  workers_.push_back(Worker("b", {"other"}));
  EXPECT_EQ(Message(), "no connected worker has method ngp (there is other)");
}

TEST_F(QueueWaitTest, FreeWorkerThatCanTakeItLeavesNothingToSay) {
  workers_ = {Worker("a", {"ngp"}, "j-1"), Worker("b", {"ngp"})};
  EXPECT_EQ(Reason(), "");
  workers_ = {Worker("does not tell", {})};
  EXPECT_EQ(Reason(), "");
}

TEST_F(QueueWaitTest, JobThatAWorkerHasJustTakenDoesNotWaitForItself) {
  job_.key = {"default", "j-1"};
  workers_ = {Worker("a", {"ngp"}, "j-1")};
  EXPECT_EQ(Reason(), "");
}

TEST_F(QueueWaitTest, BusyWorkersAreNamedByTheirJobs) {
  workers_ = {Worker("a", {"ngp"}, "j-1")};
  EXPECT_EQ(Reason(), "WORKERS_BUSY");
  EXPECT_EQ(Message(), "the only worker is busy with job j-1");
  EXPECT_EQ(Message(1), "the only worker is busy with job j-1, and 1 job is ahead of it");
  EXPECT_EQ(Message(2), "the only worker is busy with job j-1, and 2 jobs are ahead of it");
  workers_.push_back(Worker("b", {}, "j-2"));
  EXPECT_EQ(Message(), "all 2 workers are busy with jobs j-1, j-2");
  for (const char* job : {"j-3", "j-4", "j-5"}) workers_.push_back(Worker(job, {"ngp"}, job));
  EXPECT_EQ(Message(), "all 5 workers are busy with jobs j-1, j-2, j-3 and 2 more");
}

TEST_F(QueueWaitTest, WorkersWithoutTheMethodDoNotCountAsFree) {
  workers_ = {Worker("a", {"other"}), Worker("b", {"ngp"}, "j-1")};
  EXPECT_EQ(Reason(), "WORKERS_BUSY");
  EXPECT_EQ(Message(), "the only worker for it is busy with job j-1");
}

TEST_F(QueueWaitTest, UnhealthyWorkersAreNamedUnlessAnotherOneCanTakeTheJob) {
  workers_ = {Worker("a", {"ngp"})};
  workers_[0].state = WorkerState::kUnhealthy;
  workers_[0].state_message = "its engine died";
  EXPECT_EQ(Reason(), "WORKERS_UNHEALTHY");
  EXPECT_EQ(Message(), "worker a is unhealthy: its engine died");
  workers_.push_back(Worker("b", {"other"}));
  EXPECT_EQ(Reason(), "WORKERS_UNHEALTHY");
  workers_.push_back(Worker("c", {"ngp"}));
  EXPECT_EQ(Reason(), "");
  workers_[0].description.methods = {"other"};
  workers_.resize(1);
  EXPECT_EQ(Reason(), "NO_WORKER");
}

TEST_F(QueueWaitTest, AfterACrashItWaitsForTheOtherWorkers) {
  job_.crashed_on = {"a"};
  workers_ = {Worker("a", {"ngp"})};
  EXPECT_EQ(Reason(), "") << "there is no other";
  workers_.push_back(Worker("b", {"ngp"}, "j-1"));
  EXPECT_EQ(Reason(), "WORKERS_BUSY");
}

TEST_F(QueueWaitTest, JobThatNoWorkerHasRoomForSaysWhenItIsTriedAgain) {
  workers_ = {Worker("a", {"ngp"})};
  aside_ = absl::Milliseconds(29'500);
  EXPECT_EQ(Reason(), "NO_ROOM");
  EXPECT_EQ(Message(), "no worker had room for its files; next try in 30 s");
}

TEST_F(QueueWaitTest, GangNamesTheWorkersWhoseEnginesCannotTrainTogether) {
  job_.training.workers = {2, 2};
  for (const char* id : {"a", "b", "c", "d"}) {
    workers_.push_back(Worker(id, {"ngp"}));
    workers_.back().description.device = "cpu";
    workers_.back().description.host = "here";
  }
  workers_[0].description.features = {"ranks"};
  workers_[3].description.device = "cuda:0";  // not asked for
  EXPECT_EQ(Reason(), "NO_CAPABLE_WORKER");
  EXPECT_EQ(Message(),
            "it needs 2 workers that can train together; there is 1; these workers have no "
            "libnerf_gloo for that: b, c");
  workers_[1].description.features = {"ranks"};
  EXPECT_EQ(Reason(), "") << "two are enough";
  workers_.resize(1);
  EXPECT_EQ(Message(), "it needs 2 workers that can train together; there is 1");
}

// One worker would do, but none of its kind trains gangs.
TEST_F(QueueWaitTest, GangOfOneOrMoreNamesThemToo) {
  job_.training.workers = {1, 4};
  workers_ = {Worker("a", {"ngp"})};
  workers_[0].description.device = "cpu";
  EXPECT_EQ(Message(),
            "it needs 1 worker that can train together; there are 0; this worker has no "
            "libnerf_gloo for that: a");
}

TEST_F(QueueWaitTest, OnlyQueuedJobsWait) {
  for (const JobState state : kAllJobStates) {
    job_.state = state;
    EXPECT_EQ(Reason(), state == JobState::kQueued ? "NO_WORKER" : "") << JobStateName(state);
  }
}

}  // namespace
}  // namespace nerf
