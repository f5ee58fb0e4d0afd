#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/agent_fixture.h"
#include "tests/worker/fake_server.h"
#include "worker/agent.h"

namespace nerf {

using Json = nlohmann::json;

// Runs work at once, or after Hold() when LetGo() is called, like a slow network.
class InlineTasks final : public TaskRunner {
 public:
  explicit InlineTasks(Mailbox& mailbox) : mailbox_(mailbox) {}
  void Run(Lane lane, Action work, Action done) override {
    if (held_) {
      waiting_.push_back({std::move(work), std::move(done)});
      return;
    }
    work();
    mailbox_.Post(std::move(done));
  }
  void Hold() { held_ = true; }
  void LetGo() {
    held_ = false;
    for (auto& [work, done] : std::exchange(waiting_, {})) Run(Lane::kFetch, work, done);
  }

 private:
  Mailbox& mailbox_;
  bool held_ = false;
  std::deque<std::pair<Action, Action>> waiting_;
};

// Engines whose messages are sent by the test.
class ScriptedEngines final : public EngineLauncher {
 public:
  struct State {
    EngineAccess access;
    std::vector<Json> sent;
    std::vector<Engine::Event> events;
    std::function<void()> on_readable;
    bool alive = true;
    bool killed = false;
  };
  class ScriptedEngine final : public Engine {
   public:
    explicit ScriptedEngine(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~ScriptedEngine() override { state_->alive = false; }
    void Send(std::string line) override { state_->sent.push_back(Json::parse(line)); }
    std::vector<Event> Take() override { return std::exchange(state_->events, {}); }
    void Kill(EngineExit::Kind kind) override {
      state_->killed = true;
      state_->events.push_back({"", EngineExit{kind, 9}});
      state_->on_readable();
    }

   private:
    const std::shared_ptr<State> state_;
  };

  absl::StatusOr<std::unique_ptr<Engine>> Launch(const EngineAccess& access,
                                                 std::function<void()> on_readable) override {
    ++launches;
    if (broken) return absl::NotFoundError("run /nowhere: no such file");
    engine = std::make_shared<State>();
    engine->access = access;
    engine->on_readable = std::move(on_readable);
    if (hello)
      Say({{"type", "hello"},
           {"version", "1"},
           {"device", "cpu"},
           {"description", "d"},
           {"nanovdb", true},
           {"methods", {"ngp", "other"}}});
    return std::make_unique<ScriptedEngine>(engine);
  }
  // All of the engine that was launched last, unless another one is named.
  void Say(const Json& message) { Say(message, *engine); }
  static void Say(const Json& message, State& speaker) {
    speaker.events.push_back({message.dump(), std::nullopt});
    speaker.on_readable();
  }
  void Die(EngineExit exit) {
    engine->events.push_back({"", exit});
    engine->on_readable();
  }
  // The newest message of a type that the engine got.
  Json Got(const std::string& type) const { return Got(type, *engine); }
  static Json Got(const std::string& type, const State& listener) {
    for (auto it = listener.sent.rbegin(); it != listener.sent.rend(); ++it) {
      if ((*it)["type"] == type) return *it;
    }
    return nullptr;
  }

  std::shared_ptr<State> engine;
  bool hello = true, broken = false;
  int launches = 0;
};

// The agent with a fake clock, a server and an engine in memory, and background work that runs at
// once. Nothing waits.
class AgentTest : public testing::Test {
 protected:
  AgentTest() : tasks_(mailbox_) {
    std::filesystem::create_directories(dir_ / "blobs");
    cache_ = std::make_unique<BlobCache>(dir_ / "blobs", 1 << 30, server_);
    options_ = TestOptions(dir_.path());
  }

  void Start() {
    agent_ = std::make_unique<Agent>(options_, AgentContext{.clock = clock_,
                                                            .random = random_,
                                                            .mailbox = mailbox_,
                                                            .tasks = tasks_,
                                                            .cache = *cache_,
                                                            .blobs = server_,
                                                            .server = server_,
                                                            .engines = engines_});
    Settle();
  }
  // Runs everything that is due now.
  void Settle() {
    for (int i = 0; i < 5; ++i) {
      agent_->Tick();
      mailbox_.RunAll();
    }
  }
  void Pass(absl::Duration duration) {
    clock_.Advance(duration);
    Settle();
  }
  void Send(const v1::SynchronizeResponse& message) {
    server_.Send(message);
    Settle();
  }
  void Say(const Json& message) {
    engines_.Say(message);
    Settle();
  }
  // The room of the first project.
  std::string Room() const { return dir_ / "rooms/1"; }
  std::string Key(uint64_t epoch = 1) { return fmt::format("{}@{}", kJob, epoch); }
  std::string OutDir() { return engines_.Got("train")["out"]; }

  void Started(uint64_t epoch = 1) {
    Say({{"type", "started"},
         {"job", Key(epoch)},
         {"config",
          {{"method", "ngp"},
           {"seed", 1},
           {"budget", {{"kind", "steps"}, {"amount", 30}}},
           {"background", "white"},
           {"test_every", 8}}},
         {"scene", {{"flavor", "blender"}}},
         {"step", 0}});
  }
  void Progress(int step, uint64_t epoch = 1) {
    Say({{"type", "progress"},
         {"job", Key(epoch)},
         {"step", step},
         {"samples", step * 100},
         {"rays", step * 10},
         {"seconds", step * 0.5},
         {"fraction", step / 30.0},
         {"loss", 0.25}});
  }
  void SayCheckpoint(int step, uint64_t epoch = 1) {
    for (const char* name : {"c", "m"}) {
      std::ofstream(fmt::format("{}/{}{}", OutDir(), name, step)) << name << step;
    }
    engines_.Say({{"type", "checkpoint"},
                  {"job", Key(epoch)},
                  {"step", step},
                  {"checkpoint", fmt::format("{}/c{}", OutDir(), step)},
                  {"model", fmt::format("{}/m{}", OutDir(), step)}});
    Settle();
  }
  void SayDone(uint64_t epoch = 1) {
    Say({{"type", "done"},
         {"job", Key(epoch)},
         {"step", 30},
         {"samples", 3000},
         {"seconds", 15},
         {"psnr", 31.5}});
  }
  // A worker that trains kJob at epoch 1.
  void StartTraining() {
    Start();
    Send(Grant(server_, 1));
    Started();
    ASSERT_EQ(server_.phase(), v1::JobReport::RUNNING);
  }

  TempDir dir_;
  FakeClock clock_;
  FakeRandom random_;
  Mailbox mailbox_;
  InlineTasks tasks_;
  FakeServer server_;
  ScriptedEngines engines_;
  std::unique_ptr<BlobCache> cache_;
  AgentOptions options_;
  std::unique_ptr<Agent> agent_;
};

}  // namespace nerf
