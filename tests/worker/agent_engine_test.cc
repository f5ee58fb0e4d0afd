// The agent with real processes (fake_engine), threads and clock, and a server in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "common/clock.h"
#include "common/process/sandbox_support.h"
#include "nerf/v1/scene_service.pb.h"
#include "tests/worker/agent_fixture.h"
#include "worker/engine/engine_process.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using ::testing::SizeIs;

class AgentEngineTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> knobs) {
    fs::create_directories(dir_ / "blobs");
    cache_ = std::make_unique<BlobCache>(dir_ / "blobs", 1 << 30, server_);
    EngineProcessOptions engine{FAKE_ENGINE, std::move(knobs)};
    engine.sandbox.enabled = sandboxed_;
    engines_ = std::make_unique<EngineProcessLauncher>(engine);
    tasks_ = std::make_unique<ThreadTaskRunner>(mailbox_);
    AgentOptions options = TestOptions(dir_.path());
    options.heartbeat_interval = absl::Milliseconds(20);
    options.min_progress_interval = absl::Milliseconds(5);
    options.min_backoff = absl::Milliseconds(5);
    options.max_backoff = absl::Milliseconds(20);
    options.job.retry.first_pause = absl::Milliseconds(10);
    options.job.discard_timeout = absl::Milliseconds(300);
    options.job.training_silence = training_silence_;
    options.engines.quiet_time = absl::Milliseconds(20);
    agent_ = std::make_unique<Agent>(options, AgentContext{.clock = clock_,
                                                           .random = random_,
                                                           .mailbox = mailbox_,
                                                           .tasks = *tasks_,
                                                           .cache = *cache_,
                                                           .blobs = server_,
                                                           .server = server_,
                                                           .engines = *engines_});
  }
  ~AgentEngineTest() override {
    agent_.reset();
    tasks_.reset();
  }

  // Runs the agent until `condition` holds; fails after a minute.
  template <typename Condition>
  bool RunUntil(Condition condition) {
    const SteadyTime begin = clock_.Now();
    while (!condition()) {
      if (clock_.Now() - begin > absl::Minutes(1)) return false;
      agent_->Tick();
      mailbox_.Wait(absl::Milliseconds(2));
      mailbox_.RunAll();
    }
    return true;
  }
  bool RunUntilPhase(v1::JobReport::Phase phase) {
    return RunUntil([&] { return server_.phase() == phase; });
  }
  void StartTraining(std::vector<std::string> knobs, uint32_t steps = 100'000) {
    Start(std::move(knobs));
    ASSERT_TRUE(RunUntil([&] { return server_.open() && !server_.messages().empty(); }));
    server_.Send(Grant(server_, 1, steps));
    ASSERT_TRUE(RunUntilPhase(v1::JobReport::RUNNING));
  }

  bool sandboxed_ = false;
  // Long, so that a slow machine does not make the engine count as hanging.
  absl::Duration training_silence_ = absl::Minutes(1);
  TempDir dir_;
  RealClock clock_;
  FakeRandom random_;
  Mailbox mailbox_;
  FakeServer server_;
  std::unique_ptr<BlobCache> cache_;
  std::unique_ptr<EngineProcessLauncher> engines_;
  std::unique_ptr<ThreadTaskRunner> tasks_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(AgentEngineTest, TrainsToTheEndAndCommitsTheLastCheckpoint) {
  StartTraining({"--step-ms=1"}, 30);
  ASSERT_TRUE(RunUntilPhase(v1::JobReport::SUCCEEDED));
  ASSERT_FALSE(server_.commits().empty());
  const v1::CommitCheckpointRequest last = server_.commits().back();
  EXPECT_EQ(last.step(), 30u);
  EXPECT_EQ(last.tensors(0).name(), "grid");
  EXPECT_EQ(server_.Blob(last.checkpoint_blob().sha256()), "checkpoint of step 30");
  EXPECT_EQ(server_.last_report()->final_psnr(), 30.25);
  EXPECT_EQ(server_.last_report()->progress().psnr_preview(), 21.5);
}

TEST_F(AgentEngineTest, CancelIsReported) {
  StartTraining({"--step-ms=20"});
  server_.Send(Order(v1::DesiredJob::CANCEL, 1));
  ASSERT_TRUE(RunUntilPhase(v1::JobReport::CANCELLED));
}

TEST_F(AgentEngineTest, EngineThatIgnoresStopIsKilled) {
  StartTraining({"--ignore-stop"});
  server_.Send(Order(v1::DesiredJob::CANCEL, 1));
  EXPECT_TRUE(RunUntilPhase(v1::JobReport::CANCELLED));
}

TEST_F(AgentEngineTest, CrashingEngineIsReportedAndReplaced) {
  StartTraining({"--crash-at=15", "--step-ms=1"});
  ASSERT_TRUE(RunUntilPhase(v1::JobReport::ENGINE_CRASHED));
  EXPECT_THAT(server_.last_report()->error().message(), ::testing::HasSubstr("signal 11"));
  EXPECT_EQ(server_.commits().back().step(), 10u);
  // The next attempt continues from the committed checkpoint.
  v1::SynchronizeResponse grant = Grant(server_, 2, 40);
  v1::Checkpoint* resume = grant.mutable_desired_job()->mutable_resume();
  *resume->mutable_checkpoint_blob() = server_.AddBlob("at 20");
  server_.Send(Acknowledge());
  server_.Send(grant);
  ASSERT_TRUE(RunUntilPhase(v1::JobReport::SUCCEEDED));
  EXPECT_EQ(server_.last_report()->lease_epoch(), 2);
}

TEST_F(AgentEngineTest, HangingEngineIsKilledAndReported) {
  training_silence_ = absl::Milliseconds(400);
  StartTraining({"--hang-at=5", "--step-ms=1"});
  EXPECT_TRUE(RunUntilPhase(v1::JobReport::ENGINE_CRASHED));
}

TEST_F(AgentEngineTest, HostileEngineOutputIsSurvived) {
  StartTraining({"--hostile", "--step-ms=1"}, 10);
  ASSERT_TRUE(RunUntilPhase(v1::JobReport::SUCCEEDED));
  for (const v1::CommitCheckpointRequest& commit : server_.commits()) {
    EXPECT_EQ(server_.Blob(commit.model_blob().sha256()),
              "model of step " + std::to_string(commit.step()));
  }
  EXPECT_EQ(server_.commits().back().step(), 10u);
}

TEST_F(AgentEngineTest, TrainsOnThroughAnOutageAndComesBackAtTheSameEpoch) {
  StartTraining({"--step-ms=1", "--checkpoint-every=5"}, 60);
  server_.SetAway(true);
  // Trains to its end without a server.
  ASSERT_TRUE(RunUntil([&] {
    return agent_->job() != nullptr && agent_->job()->stage() == JobRun::Stage::kCommitting;
  }));
  server_.SetAway(false);
  ASSERT_TRUE(RunUntilPhase(v1::JobReport::SUCCEEDED));
  EXPECT_EQ(server_.last_report()->lease_epoch(), 1);
  EXPECT_EQ(server_.commits().back().step(), 60u);
}

TEST_F(AgentEngineTest, ShutdownReleasesAfterACheckpointOfTheLastStep) {
  StartTraining({"--step-ms=2", "--checkpoint-every=1000000"});
  ASSERT_TRUE(RunUntil([&] { return server_.last_report()->progress().step() > 5; }));
  agent_->Shutdown();
  ASSERT_TRUE(RunUntilPhase(v1::JobReport::RELEASED));
  ASSERT_THAT(server_.commits(), SizeIs(1));
  EXPECT_GT(server_.commits()[0].step(), 5u);
  server_.Send(Acknowledge());
  EXPECT_TRUE(RunUntil([&] { return agent_->result().has_value(); }));
}

TEST_F(AgentEngineTest, RendersBetweenSteps) {
  StartTraining({"--step-ms=2"});
  v1::SynchronizeResponse message;
  message.mutable_request()->set_request_id("q1");
  message.mutable_request()->mutable_render()->set_job(kJob);
  server_.Send(message);
  v1::RenderImageResponse response;
  ASSERT_TRUE(RunUntil([&] {
    for (const auto& sent : server_.messages()) {
      if (sent.has_reply()) return response.ParseFromString(sent.reply().chunk());
    }
    return false;
  }));
  EXPECT_EQ(response.images(0).content(), "of job");
  EXPECT_EQ(server_.phase(), v1::JobReport::RUNNING);
}

// What an engine found of the traces that engines have left, and itself.
struct Found {
  int pid = 0, in_memory = -1, in_room = -1, in_all = -1;
};

class AgentSnoopTest : public AgentEngineTest {
 protected:
  AgentSnoopTest() { sandboxed_ = LandlockVersion() >= 3; }
  ~AgentSnoopTest() override {
    std::string name = dir_ / "rooms";
    for (char& c : name) c = c == '/' ? '-' : c;
    fs::remove("/dev/shm/trace" + name);
  }
  // Has a scene of the project checked.
  Found Check(const std::string& project) {
    const std::string id = "q" + std::to_string(++n_checks_);
    v1::SynchronizeResponse message;
    message.mutable_request()->set_request_id(id);
    message.mutable_request()->set_project(project);
    v1::SceneManifestEntry* file = message.mutable_request()->mutable_validate()->add_files();
    file->set_path("transforms.json");
    *file->mutable_blob() = server_.AddBlob("{}");
    server_.Send(message);
    v1::ValidateSceneResponse response;
    EXPECT_TRUE(RunUntil([&] {
      for (const auto& sent : server_.messages()) {
        if (sent.has_reply() && sent.reply().request_id() == id) {
          return response.ParseFromString(sent.reply().chunk());
        }
      }
      return false;
    }));
    Found found;
    std::istringstream(response.summary()) >> found.pid >> found.in_memory >> found.in_room >>
        found.in_all;
    return found;
  }

  int n_checks_ = 0;
};

TEST_F(AgentSnoopTest, EngineFindsNothingThatOneOfAnotherProjectHasLeft) {
  Start({"--snoop"});
  ASSERT_TRUE(RunUntil([&] { return server_.open() && !server_.messages().empty(); }));
  std::set<int> pids;
  for (const char* project : {"a", "b", "c", "a", "d"}) {
    SCOPED_TRACE(project);
    const Found found = Check(project);
    EXPECT_TRUE(pids.insert(found.pid).second) << "an engine that has worked for another project";
    EXPECT_EQ(found.in_memory, 0);
    EXPECT_EQ(found.in_room, 0);
    if (sandboxed_) {
      EXPECT_EQ(found.in_all, 0);
    }
    // Of its own project it does, so the traces are real ones.
    const Found again = Check(project);
    EXPECT_EQ(again.pid, found.pid) << "the engine was not kept";
    EXPECT_EQ(again.in_memory, 1);
    EXPECT_EQ(again.in_room, 2);
    EXPECT_TRUE(RunUntil(
        [begin = clock_.Now(), this] { return clock_.Now() - begin > absl::Milliseconds(30); }));
  }
}

}  // namespace
}  // namespace nerf
