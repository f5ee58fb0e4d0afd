#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/messages/rpc_status.h"
#include "nerf/internal/engine.pb.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/agent_fixture.h"
#include "tests/worker/fake_server.h"
#include "worker/agent.h"

namespace nerf {

using internal::EngineMessage;
using internal::WorkerRequest;

// What a message of an engine is about; what it says is still to be set.
inline EngineMessage AboutJob(const std::string& job) {
  EngineMessage message;
  message.set_job(job);
  return message;
}
inline EngineMessage AnswerTo(const std::string& id) {
  EngineMessage message;
  message.set_id(id);
  return message;
}

inline EngineMessage Refusal(const std::string& id, const absl::Status& status,
                             const std::string& job = "") {
  EngineMessage message = AboutJob(job);
  message.set_id(id);
  *message.mutable_refused() = ToRpcStatus(status);
  return message;
}
inline EngineMessage Failure(const std::string& job, const absl::Status& status) {
  EngineMessage message = AboutJob(job);
  *message.mutable_failed()->mutable_error() = ToRpcStatus(status);
  return message;
}
inline EngineMessage StoppedAt(const std::string& job, uint32_t step) {
  EngineMessage message = AboutJob(job);
  message.mutable_stopped()->set_step(step);
  return message;
}
inline EngineMessage HelloOf(const std::string& description) {
  EngineMessage message;
  internal::Hello& hello = *message.mutable_hello();
  hello.set_version("1");
  hello.set_device("cpu");
  hello.set_description(description);
  return message;
}
inline EngineMessage WorkingOn(const std::string& id) {
  EngineMessage message = AnswerTo(id);
  message.mutable_working();
  return message;
}
// An image of `channel` in each of the files.
inline EngineMessage RenderedTo(const std::string& id, const std::vector<std::string>& files,
                                v1::RenderChannel channel = v1::RGB) {
  EngineMessage message = AnswerTo(id);
  internal::Rendered& rendered = *message.mutable_rendered();
  rendered.mutable_response()->set_width(8);
  rendered.mutable_response()->set_height(6);
  for (const std::string& file : files) {
    rendered.mutable_response()->add_images()->set_channel(channel);
    rendered.add_files(file);
  }
  return message;
}

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
    std::vector<WorkerRequest> sent;
    std::vector<Engine::Event> events;
    std::function<void()> on_readable;
    bool alive = true;
    bool killed = false;
  };
  class ScriptedEngine final : public Engine {
   public:
    explicit ScriptedEngine(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~ScriptedEngine() override { state_->alive = false; }
    void Send(const std::string& message) override {
      EXPECT_TRUE(state_->sent.emplace_back().ParseFromString(message));
    }
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
    if (hello) {
      EngineMessage message = HelloOf("d");
      message.mutable_hello()->set_writes_nanovdb(true);
      for (const char* method : {"ngp", "other"}) message.mutable_hello()->add_methods(method);
      Say(message);
    }
    return std::make_unique<ScriptedEngine>(engine);
  }
  // All of the engine that was launched last, unless another one is named.
  void Say(const EngineMessage& message) { Say(message, *engine); }
  static void Say(const EngineMessage& message, State& speaker) {
    SayBytes(message.SerializeAsString(), speaker);
  }
  static void SayBytes(const std::string& bytes, State& speaker) {
    speaker.events.push_back({bytes, std::nullopt});
    speaker.on_readable();
  }
  void Die(EngineExit exit) {
    engine->events.push_back({"", exit});
    engine->on_readable();
  }
  // The newest request of a kind that the engine got; one that asks nothing if it got none.
  WorkerRequest Got(WorkerRequest::RequestCase kind) const { return Got(kind, *engine); }
  static WorkerRequest Got(WorkerRequest::RequestCase kind, const State& listener) {
    for (auto it = listener.sent.rbegin(); it != listener.sent.rend(); ++it) {
      if (it->request_case() == kind) return *it;
    }
    return {};
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
  void Say(const EngineMessage& message) {
    engines_.Say(message);
    Settle();
  }
  // The room of the first project.
  std::string Room() const { return dir_ / "rooms/1"; }
  std::string Key(uint64_t epoch = 1) { return fmt::format("{}@{}", kJob, epoch); }
  // What the engine was asked last.
  internal::Train GotTrain() const { return engines_.Got(WorkerRequest::kTrain).train(); }
  WorkerRequest GotRender() const { return engines_.Got(WorkerRequest::kRender); }
  bool WasToldToStop(bool checkpoint) const {
    const WorkerRequest request = engines_.Got(WorkerRequest::kStop);
    return request.has_stop() && request.stop().checkpoint() == checkpoint;
  }
  std::string OutDir() const { return GotTrain().out(); }

  void Started(uint64_t epoch = 1) {
    EngineMessage message = AboutJob(Key(epoch));
    internal::Started& started = *message.mutable_started();
    started.mutable_config()->set_method("ngp");
    started.mutable_config()->set_seed(1);
    started.mutable_config()->set_steps(30);
    started.mutable_config()->set_background(v1::TrainingConfig::WHITE);
    started.mutable_config()->set_test_every(8);
    started.set_flavor("blender");
    Say(message);
  }
  EngineMessage ProgressAt(uint32_t step, uint64_t epoch = 1) {
    EngineMessage message = AboutJob(Key(epoch));
    v1::Progress& progress = *message.mutable_progress()->mutable_progress();
    progress.set_step(step);
    progress.set_samples(step * 100);
    progress.set_rays(step * 10);
    progress.set_seconds(step * 0.5);
    progress.set_fraction(step / 30.0);
    progress.set_loss(0.25);
    return message;
  }
  void Progress(uint32_t step, uint64_t epoch = 1) { Say(ProgressAt(step, epoch)); }
  EngineMessage PreviewOf(const std::string& image, uint32_t step) {
    EngineMessage message = AboutJob(Key());
    message.mutable_preview()->set_step(step);
    message.mutable_preview()->set_image(image);
    return message;
  }
  EngineMessage CheckpointOf(const std::string& checkpoint, const std::string& model, uint32_t step,
                             uint64_t epoch = 1) {
    EngineMessage message = AboutJob(Key(epoch));
    internal::SavedState& saved = *message.mutable_checkpoint();
    saved.set_step(step);
    saved.set_checkpoint(checkpoint);
    saved.set_model(model);
    return message;
  }
  void SayCheckpoint(uint32_t step, uint64_t epoch = 1) {
    for (const char* name : {"c", "m"}) {
      std::ofstream(fmt::format("{}/{}{}", OutDir(), name, step)) << name << step;
    }
    Say(CheckpointOf(fmt::format("{}/c{}", OutDir(), step), fmt::format("{}/m{}", OutDir(), step),
                     step, epoch));
  }
  void SayDone(uint64_t epoch = 1) {
    EngineMessage message = AboutJob(Key(epoch));
    v1::Progress& progress = *message.mutable_done()->mutable_progress();
    progress.set_step(30);
    progress.set_samples(3000);
    progress.set_seconds(15);
    progress.set_fraction(1);
    message.mutable_done()->set_psnr(31.5);
    Say(message);
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
