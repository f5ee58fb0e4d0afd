// EngineProcess against fake_engine.
#include "worker/engine/engine_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "common/clock.h"
#include "engine/protocol/engine_message.h"
#include "engine/protocol/line_splitter.h"
#include "engine/protocol/worker_request.h"
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
  std::string Train(const std::string& out) {
    protocol::Train train;
    train.job = "j@1";
    train.dataset = train.out = out;
    train.config.method = "ngp";
    train.config.seed = 1;
    train.config.budget = {"steps", 1000};
    return protocol::ToLine(train);
  }

  Mailbox readable_;
  std::unique_ptr<Engine> engine_;
  Engine::Event last_;
  std::optional<EngineExit> exit_;
  int events_ = 0;
  size_t most_events_at_once_ = 0;
};

TEST_F(EngineProcessTest, FirstLineIsHello) {
  Start({});
  ASSERT_TRUE(TakeUntil([](const Engine::Event& event) { return true; }));
  const auto message = protocol::ParseEngineMessage(last_.line);
  ASSERT_THAT(message, IsOk());
  EXPECT_EQ(std::get<protocol::Hello>(*message).description, "fake device");
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

TEST_F(EngineProcessTest, OverlongLinesAreDroppedAndTheNextOnesRead) {
  TempDir dir;
  Start({"--hostile", "--step-ms=1"});
  engine_->Send(Train(dir.path()));
  size_t longest = 0;
  EXPECT_TRUE(TakeUntil([&](const Engine::Event& event) {
    longest = std::max(longest, event.line.size());
    return event.line.find("\"step\":3") != std::string::npos;
  }));
  EXPECT_LE(longest, kMaxLineBytes);
}

TEST_F(EngineProcessTest, FloodWaitsInTheSocketUntilItIsTaken) {
  Start({"--flood=20000"});
  EXPECT_TRUE(TakeUntil([&](const Engine::Event& event) { return events_ > 15'000; }));
  EXPECT_LE(most_events_at_once_, 1000u);
}

TEST_F(EngineProcessTest, LongCommandsArriveWhole) {
  Start({});
  std::string dataset(500'000, 'd');
  engine_->Send(protocol::ToLine(protocol::Check{"r1", dataset}));
  EXPECT_TRUE(TakeUntil(
      [](const Engine::Event& event) { return event.line.find("checked") != std::string::npos; }));
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
