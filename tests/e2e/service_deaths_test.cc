// Each process is killed while a job trains. The job loses at most one checkpoint interval and ends
// exactly once; watches miss no event.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/process/exit_code.h"
#include "tests/e2e/service_harness.h"

namespace nerf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ServiceDeathsTest : public ServiceTest {
 protected:
  // nerfd, a job in training with a committed checkpoint, and a watch of it.
  BinaryProcess& TrainUntilCheckpoint(std::vector<std::string> nerfd_flags,
                                      const std::string& seconds) {
    nerfd_flags.insert(nerfd_flags.end(), {"--checkpoint-interval", "500ms"});
    EXPECT_TRUE(StartNerfd(nerfd_flags)) << nerfd().err();
    CreateSmallScene();
    const CtlResult created = CreateJob("job", {"--seconds", seconds});
    EXPECT_EQ(created.code, kOk) << created.err;
    BinaryProcess& watch = StartWatch("job");
    EXPECT_TRUE(WaitForCheckpoint("job"));
    EXPECT_EQ(GetJob("job")["state"], "RUNNING");
    return watch;
  }

  // Expects that the job was queued again once, for `reason`, resumed at or after step `floor`, and
  // ended once.
  static void ExpectWentOnFrom(const WatchRecord& seen, const std::string& reason, int floor) {
    seen.ExpectGapFree();
    int n_succeeded = 0, n_requeued = 0, last_checkpoint = 0, resumed_from = 0;
    for (const Json& message : seen.messages) {
      if (!message.contains("job")) continue;
      const std::string kind = message["kind"];
      const Json& job = message["job"];
      if (kind == "STATE_CHANGED" && job["state"] == "SUCCEEDED") ++n_succeeded;
      if (kind == "STATE_CHANGED" && job["state"] == "QUEUED") {
        ++n_requeued;
        EXPECT_EQ(job["queueReason"], reason);
        resumed_from = LastCheckpoint(job);
        EXPECT_GE(resumed_from, floor);
      }
      if (kind == "CHECKPOINT_COMMITTED") {
        EXPECT_GT(LastCheckpoint(job), last_checkpoint);
        last_checkpoint = LastCheckpoint(job);
      }
      if (kind == "PROGRESS" && job["attempt"] == 2) {
        EXPECT_GT(StepOf(job), resumed_from) << "it started over";
      }
    }
    EXPECT_EQ(n_requeued, 1);
    EXPECT_EQ(n_succeeded, 1);
    EXPECT_GT(resumed_from, 0);
    EXPECT_THAT(seen.States(),
                ElementsAre("RUNNING", "QUEUED", "PREPARING", "RUNNING", "SUCCEEDED"));
    EXPECT_EQ(seen.messages.back()["job"]["attempt"], 2);
  }

  // The events of a watch from the first RUNNING on; those before differ between runs.
  static WatchRecord FromRunning(const BinaryProcess& watch) {
    WatchRecord seen = Seen(watch);
    auto& messages = seen.messages;
    while (!messages.empty() &&
           (!messages[0].contains("job") || messages[0]["job"]["state"] != "RUNNING")) {
      messages.erase(messages.begin());
    }
    if (!messages.empty()) messages[0]["kind"] = "SNAPSHOT";
    return seen;
  }
};

TEST_F(ServiceDeathsTest, KilledEngineCostsOneAttemptAndTheJobGoesOnFromItsCheckpoint) {
  BinaryProcess& watch = TrainUntilCheckpoint({}, "4");
  const int floor = LastCheckpoint(GetJob("job"));
  const pid_t worker = WaitForOnly("nerf-worker"), engine = WaitForOnly("nerf-engine");
  ASSERT_NE(engine, 0);
  kill(engine, SIGKILL);
  ASSERT_EQ(watch.Wait(kLong), kOk) << watch.err();
  ExpectWentOnFrom(FromRunning(watch), "ENGINE_CRASHED", floor);
  EXPECT_EQ(WaitForOnly("nerf-worker"), worker);
  EXPECT_NE(WaitForOnly("nerf-engine", engine), 0);
}

TEST_F(ServiceDeathsTest, ShortJobGoesOnFromTheLastFifthOfItsBudget) {
  ASSERT_TRUE(StartNerfd({"--checkpoint-interval", "30s"})) << nerfd().err();
  CreateSmallScene();
  ASSERT_EQ(CreateJob("job", {"--seconds", "10"}).code, kOk);
  BinaryProcess& watch = StartWatch("job");
  const auto seconds_of = [](const Json& job) {
    const Json& training = job["trainingStatus"];
    return training.contains("progress") ? training["progress"]["seconds"].get<double>() : 0;
  };
  ASSERT_TRUE(WaitForJob("job", [&](const Json& job) { return seconds_of(job) >= 6; }));
  kill(WaitForOnly("nerf-engine"), SIGKILL);
  ASSERT_EQ(watch.Wait(kLong), kOk) << watch.err();
  double begin = 0;  // of the second attempt, which had reached 6
  for (const Json& message : FromRunning(watch).messages) {
    if (!message.contains("job") || message["kind"] != "PROGRESS") continue;
    const Json& job = message["job"];
    if (job["attempt"] == 2 && begin == 0) begin = seconds_of(job);
  }
  EXPECT_GE(begin, 4);
}

TEST_F(ServiceDeathsTest, KilledWorkerIsStartedAgainAndTheJobGoesOnFromItsCheckpoint) {
  BinaryProcess& watch = TrainUntilCheckpoint({}, "4");
  const int floor = LastCheckpoint(GetJob("job"));
  const pid_t worker = WaitForOnly("nerf-worker"), engine = WaitForOnly("nerf-engine");
  ASSERT_NE(worker, 0);
  kill(worker, SIGKILL);
  // The engine must end with its worker.
  EXPECT_TRUE(WaitUntil(absl::Seconds(20 * kSlower), [&] {
    return !testing::Value(MarkedProcesses("nerf-engine"), Contains(engine));
  }));
  ASSERT_EQ(watch.Wait(kLong), kOk) << watch.err();
  ExpectWentOnFrom(FromRunning(watch), "WORKER_LOST", floor);
  EXPECT_NE(WaitForOnly("nerf-worker", worker), 0);
  const CtlResult workers = Ctl({"worker", "ls", "-o", "json"});
  EXPECT_EQ(workers.json().size(), 1u) << "it reconnected with the same id: " << workers.out;
}

TEST_F(ServiceDeathsTest, KilledServerFindsItsLivingWorkerAndTheWatchGoesOnWithoutAGap) {
  BinaryProcess& watch = TrainUntilCheckpoint({}, "6");
  const pid_t worker = WaitForOnly("nerf-worker"), engine = WaitForOnly("nerf-engine");
  ASSERT_NE(worker, 0);
  nerfd().Kill(SIGKILL);
  ASSERT_TRUE(nerfd().Wait(kLong).has_value());
  const absl::Duration used = ProcessorTime(engine);
  EXPECT_TRUE(WaitUntil(kLong, [&] { return ProcessorTime(engine) > used + absl::Seconds(1); }))
      << "the engine trains on while the server is away";

  ASSERT_TRUE(StartNerfd(SamePorts())) << nerfd().err();
  EXPECT_EQ(GetJob("job")["state"], "RUNNING") << "a restart places no job again";
  ASSERT_EQ(watch.Wait(kLong), kOk) << watch.err();
  EXPECT_EQ(WaitForOnly("nerf-worker"), worker);
  EXPECT_EQ(WaitForOnly("nerf-engine"), engine);
  EXPECT_THAT(watch.err(), HasSubstr("connected again"));

  // The second stream starts with a snapshot at the token; after it the events continue.
  WatchRecord seen = FromRunning(watch);
  EXPECT_THAT(seen.States(), ElementsAre("RUNNING", "SUCCEEDED"));
  seen.ExpectGapFree();
  const Json job = GetJob("job");
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(job["lastEventSequence"].get<int>(), seen.messages.back()["sequence"].get<int>());

  // The worker is an orphan now and must still end with its server.
  nerfd().Kill(SIGTERM);
  EXPECT_EQ(nerfd().Wait(absl::Seconds(30)), kOk);
  EXPECT_TRUE(WaitUntil(absl::Seconds(20 * kSlower), [&] { return MarkedProcesses("").empty(); }));
}

TEST_F(ServiceDeathsTest, ServerAndWorkerKilledTogetherLoseNoJob) {
  TrainUntilCheckpoint({"--lease-ttl", "2s"}, "4");
  ASSERT_EQ(CreateJob("behind", {"--steps", "50"}).code, kOk);
  const int floor = LastCheckpoint(GetJob("job"));
  for (const char* name : {"nerfd", "nerf-worker"}) {
    for (const pid_t pid : MarkedProcesses(name)) kill(pid, SIGKILL);
  }
  ASSERT_TRUE(nerfd().Wait(kLong).has_value());
  auto flags = SamePorts();
  flags.insert(flags.end(), {"--lease-ttl", "2s"});
  ASSERT_TRUE(StartNerfd(flags)) << nerfd().err();
  ASSERT_TRUE(WaitForState("job", "SUCCEEDED"));
  ASSERT_TRUE(WaitForState("behind", "SUCCEEDED"));
  const Json job = GetJob("job");
  EXPECT_EQ(job["attempt"], 2);
  EXPECT_GT(LastCheckpoint(job), floor);
  EXPECT_EQ(GetJob("behind")["attempt"], 1);
}

TEST_F(ServiceDeathsTest, SigtermCommitsACheckpointHandsTheJobBackAndARestartGoesOnFromThere) {
  // No checkpoint is due, so the only one is that of the drain.
  ASSERT_TRUE(StartNerfd({"--checkpoint-interval", "10m"})) << nerfd().err();
  CreateSmallScene();
  ASSERT_EQ(CreateJob("job", {"--seconds", "5"}).code, kOk);
  ASSERT_TRUE(WaitForSteps("job", 100));
  const int before = StepOf(GetJob("job"));
  BinaryProcess& watch = StartWatch("job");
  ASSERT_TRUE(WaitUntil(kLong, [&] { return !watch.lines().empty(); }));
  const absl::Time begin = absl::Now();
  nerfd().Kill(SIGTERM);
  ASSERT_EQ(nerfd().Wait(absl::Seconds(30)), kOk) << nerfd().err();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  for (const char* name : {"nerfd", "nerf-worker", "nerf-engine"}) {
    EXPECT_THAT(MarkedProcesses(name), testing::IsEmpty()) << name << " is left behind";
  }
  EXPECT_FALSE(std::filesystem::exists(data_dir() + "/nerfd.ports"));

  std::vector<std::string> flags = SamePorts();
  flags.push_back("--no-local-worker");
  ASSERT_TRUE(StartNerfd(flags)) << nerfd().err();
  const Json handed_back = GetJob("job");
  EXPECT_EQ(handed_back["state"], "QUEUED");
  EXPECT_EQ(handed_back["queueReason"], "WORKER_DRAINED");
  EXPECT_EQ(handed_back["attempt"], 1);
  EXPECT_TRUE(handed_back["workers"].empty());
  const int stored = LastCheckpoint(handed_back);
  EXPECT_GE(stored, before);
  nerfd().Kill(SIGTERM);
  ASSERT_EQ(nerfd().Wait(absl::Seconds(30)), kOk);

  flags = SamePorts();
  flags.insert(flags.end(), {"--checkpoint-interval", "10m"});
  ASSERT_TRUE(StartNerfd(flags)) << nerfd().err();
  ASSERT_EQ(watch.Wait(kLong), kOk) << watch.err();
  ExpectWentOnFrom(FromRunning(watch), "WORKER_DRAINED", stored);
  EXPECT_EQ(GetJob("job")["attempt"], 2);
}

TEST_F(ServiceDeathsTest, ThirdEngineCrashInARowWithoutANewCheckpointFailsTheJob) {
  ASSERT_TRUE(StartNerfd({"--checkpoint-interval", "10m"})) << nerfd().err();
  CreateSmallScene();
  ASSERT_EQ(CreateJob("poison", {"--seconds", "600"}).code, kOk);
  ASSERT_EQ(CreateJob("next", {"--steps", "50"}).code, kOk);
  for (int crash = 1; crash <= 3; ++crash) {
    ASSERT_TRUE(WaitForJob("poison", [&](const Json& job) {
      return job["state"] == "RUNNING" && job["attempt"] == crash;
    }));
    for (const pid_t pid : MarkedProcesses("nerf-engine")) kill(pid, SIGKILL);
  }
  ASSERT_TRUE(WaitForState("poison", "FAILED"));
  const Json job = GetJob("poison");
  EXPECT_EQ(job["attempt"], 3);
  EXPECT_THAT(job["error"].dump(), HasSubstr("ENGINE_CRASHED"));
  EXPECT_TRUE(WaitForState("next", "SUCCEEDED")) << "others do not suffer";
}

TEST_F(ServiceDeathsTest, WorkerThatWasSilentForLongTakesItsJobUpAgain) {
  BinaryProcess& watch = TrainUntilCheckpoint({"--lease-ttl", "2s"}, "6");
  const pid_t worker = WaitForOnly("nerf-worker"), engine = WaitForOnly("nerf-engine");
  kill(worker, SIGSTOP);
  ASSERT_TRUE(WaitForState("job", "QUEUED"));
  EXPECT_EQ(GetJob("job")["queueReason"], "WORKER_LOST");
  kill(worker, SIGCONT);
  ASSERT_EQ(watch.Wait(kLong), kOk) << watch.err();
  const WatchRecord seen = FromRunning(watch);
  seen.ExpectGapFree();
  EXPECT_THAT(seen.States(), ElementsAre("RUNNING", "QUEUED", "RUNNING", "SUCCEEDED"));
  EXPECT_EQ(GetJob("job")["attempt"], 1) << "nobody else had it";
  EXPECT_EQ(WaitForOnly("nerf-engine"), engine);
}

TEST_F(ServiceDeathsTest, CancelOfAJobWhoseWorkerIsLostEndsCancelled) {
  BinaryProcess& watch = TrainUntilCheckpoint({"--lease-ttl", "2s"}, "600");
  kill(WaitForOnly("nerf-worker"), SIGSTOP);
  const CtlResult cancelled = Ctl({"job", "cancel", "job", "-o", "json"});
  EXPECT_EQ(cancelled.json()["state"], "CANCELLING") << cancelled.err;
  for (const pid_t pid : MarkedProcesses("nerf-worker")) kill(pid, SIGKILL);
  EXPECT_EQ(watch.Wait(kLong), kJobFailed);
  EXPECT_EQ(GetJob("job")["state"], "CANCELLED");
  ASSERT_EQ(CreateJob("next", {"--steps", "50"}).code, kOk);
  EXPECT_TRUE(WaitForState("next", "SUCCEEDED"));
}

TEST_F(ServiceDeathsTest, SigtermToTheWorkerAloneHandsTheJobBackAndAnotherWorkerGoesOn) {
  BinaryProcess& watch = TrainUntilCheckpoint({}, "4");
  const int floor = LastCheckpoint(GetJob("job"));
  const pid_t worker = WaitForOnly("nerf-worker");
  kill(worker, SIGTERM);
  ASSERT_EQ(watch.Wait(kLong), kOk) << watch.err();
  ExpectWentOnFrom(FromRunning(watch), "WORKER_DRAINED", floor);
  EXPECT_NE(WaitForOnly("nerf-worker", worker), 0);
}

TEST_F(ServiceDeathsTest, SecondSigtermEndsTheServerAtOnceAndTheJobIsStillThere) {
  TrainUntilCheckpoint({}, "4");
  // The stopped worker cannot answer the first one.
  const pid_t worker = WaitForOnly("nerf-worker");
  kill(worker, SIGSTOP);
  nerfd().Kill(SIGTERM);
  EXPECT_FALSE(nerfd().Wait(absl::Milliseconds(500)).has_value()) << "it waits for its worker";
  nerfd().Kill(SIGTERM);
  EXPECT_EQ(nerfd().Wait(absl::Seconds(20)), 128 + SIGTERM);
  kill(worker, SIGCONT);
  ASSERT_TRUE(StartNerfd(SamePorts())) << nerfd().err();
  EXPECT_TRUE(WaitForState("job", "SUCCEEDED"));
}

TEST_F(ServiceDeathsTest, InterruptedWatchLeavesTheJobRunning) {
  BinaryProcess& watch = TrainUntilCheckpoint({}, "600");
  watch.Kill(SIGINT);
  EXPECT_EQ(watch.Wait(kLong), kInterrupted);
  EXPECT_THAT(watch.err(), HasSubstr("keeps running"));
  EXPECT_EQ(GetJob("job")["state"], "RUNNING");
  ASSERT_EQ(Ctl({"job", "cancel", "job"}).code, kOk);
  EXPECT_TRUE(WaitForState("job", "CANCELLED"));
}

}  // namespace
}  // namespace nerf
