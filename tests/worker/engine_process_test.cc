// EngineProcess against fake_engine.
#include "worker/engine/engine_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "common/clock.h"
#include "engine/base/protocol/message_splitter.h"
#include "nerf/internal/engine.pb.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "worker/base/mailbox.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;

class EngineProcessTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> knobs) {
    EngineProcessLauncher launcher({FAKE_ENGINE, std::move(knobs)});
    auto engine = launcher.Launch({}, [this] { readable_.Post([] {}); });
    ASSERT_THAT(engine, IsOk());
    engine_ = *std::move(engine);
  }
  // Takes events until one matches, for at most 20 s.
  template <typename Match>
  bool TakeUntil(Match match) {
    const RealClock clock;
    const SteadyTime begin = clock.Now();
    while (clock.Now() - begin < absl::Seconds(20)) {
      std::vector<Engine::Event> events = engine_->Take();
      most_events_at_once_ = std::max(most_events_at_once_, events.size());
      for (Engine::Event& event : events) {
        ++events_;
        if (event.exit.has_value()) exit_ = event.exit;
        last_ = event;
        if (match(event)) return true;
      }
      readable_.Wait(absl::Milliseconds(100));
      readable_.RunAll();
    }
    return false;
  }
  bool TakeUntilExit() {
    return TakeUntil([](const Engine::Event& event) { return event.exit.has_value(); });
  }
  std::string Train(const std::string& out, uint32_t n_steps = 1000) {
    internal::WorkerRequest request;
    request.set_job("j@1");
    internal::Train& train = *request.mutable_train();
    train.set_dataset(out);
    train.set_out(out);
    train.mutable_config()->set_method("ngp");
    train.mutable_config()->set_seed(1);
    train.mutable_config()->set_steps(n_steps);
    return request.SerializeAsString();
  }
  // Of an event; an empty one of bytes that are none.
  static internal::EngineMessage MessageOf(const Engine::Event& event) {
    internal::EngineMessage message;
    return message.ParseFromString(event.message) ? message : internal::EngineMessage();
  }

  Mailbox readable_;
  std::unique_ptr<Engine> engine_;
  Engine::Event last_;
  std::optional<EngineExit> exit_;
  int events_ = 0;
  size_t most_events_at_once_ = 0;
};

TEST_F(EngineProcessTest, FirstMessageIsHello) {
  Start({});
  ASSERT_TRUE(TakeUntil([](const Engine::Event& event) { return true; }));
  EXPECT_EQ(MessageOf(last_).hello().description(), "fake device");
}

TEST_F(EngineProcessTest, ExitCodeAndSignalAreToldApart) {
  Start({"--exit-at-start"});
  ASSERT_TRUE(TakeUntilExit());
  EXPECT_EQ(exit_->kind, EngineExit::Kind::kCode);
  EXPECT_EQ(exit_->code, 4);

  TempDir dir;
  Start({"--crash-at=2", "--step-ms=1"});
  engine_->Send(Train(dir.path()));
  ASSERT_TRUE(TakeUntilExit());
  EXPECT_EQ(exit_->kind, EngineExit::Kind::kSignal);
  EXPECT_EQ(exit_->code, SIGSEGV);
}

TEST_F(EngineProcessTest, KilledEngineEndsAsWhatItWasKilledFor) {
  Start({});
  engine_->Kill(EngineExit::Kind::kHang);
  ASSERT_TRUE(TakeUntilExit());
  EXPECT_EQ(exit_->kind, EngineExit::Kind::kHang);
}

TEST_F(EngineProcessTest, OverlongMessagesAreDroppedAndTheNextOnesRead) {
  TempDir dir;
  Start({"--hostile", "--step-ms=1"});
  engine_->Send(Train(dir.path()));
  size_t longest = 0;
  EXPECT_TRUE(TakeUntil([&](const Engine::Event& event) {
    longest = std::max(longest, event.message.size());
    return MessageOf(event).progress().progress().step() == 3;
  }));
  EXPECT_EQ(longest, kMaxMessageBytes);
}

TEST_F(EngineProcessTest, LengthOfMoreThan32BitsEndsTheMessagesButNotTheWorker) {
  TempDir dir;
  Start({"--hostile-end", "--step-ms=1"});
  engine_->Send(Train(dir.path(), 3));
  ASSERT_TRUE(TakeUntil([&](const Engine::Event& event) { return MessageOf(event).has_done(); }));
  const int before = events_;
  engine_->Kill(EngineExit::Kind::kKilled);
  ASSERT_TRUE(TakeUntilExit());
  EXPECT_EQ(events_, before + 1) << "nothing but its end";
}

TEST_F(EngineProcessTest, FloodWaitsInTheSocketUntilItIsTaken) {
  Start({"--flood=20000"});
  EXPECT_TRUE(TakeUntil([&](const Engine::Event& event) { return events_ > 15'000; }));
  EXPECT_LE(most_events_at_once_, 1000u);
}

TEST_F(EngineProcessTest, LongCommandsArriveWhole) {
  Start({});
  internal::WorkerRequest request;
  request.set_id("r1");
  request.mutable_check()->set_dataset(std::string(500'000, 'd'));
  engine_->Send(request.SerializeAsString());
  EXPECT_TRUE(TakeUntil([](const Engine::Event& event) { return MessageOf(event).has_checked(); }));
}

TEST_F(EngineProcessTest, MissingProgramIsAClearError) {
  EngineProcessLauncher launcher({"/nowhere/nerf-engine", {}});
  EXPECT_THAT(launcher.Launch({}, [] {}),
              StatusIs(absl::StatusCode::kNotFound, "/nowhere/nerf-engine"));
}

TEST_F(EngineProcessTest, ProgramThatCannotBeExecutedEndsWithACode) {
  TempDir dir;
  std::ofstream(dir / "engine") << "not a program";
  std::filesystem::permissions(dir / "engine", std::filesystem::perms::owner_all);
  EngineProcessLauncher launcher({dir / "engine", {}});
  auto engine = launcher.Launch({}, [this] { readable_.Post([] {}); });
  ASSERT_THAT(engine, IsOk());
  engine_ = *std::move(engine);
  ASSERT_TRUE(TakeUntilExit());
  EXPECT_EQ(exit_->code, 127);
}

}  // namespace
}  // namespace nerf
