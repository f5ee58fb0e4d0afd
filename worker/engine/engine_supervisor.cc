#include "worker/engine/engine_supervisor.h"

#include <algorithm>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/messages/rpc_status.h"
#include "common/process/exit_code.h"
#include "engine/base/protocol/message_splitter.h"

namespace nerf {
namespace {

// Bad messages of a process beyond this number are counted but not logged.
constexpr int kMaxLoggedBadMessages = 10;

}  // namespace

EngineSupervisor::EngineSupervisor(EngineSupervisorOptions options, const Clock& clock,
                                   EngineLauncher& launcher, Mailbox& mailbox, Listener listener)
    : options_(options),
      clock_(clock),
      launcher_(launcher),
      mailbox_(mailbox),
      listener_(std::move(listener)),
      last_message_(clock.Now()),
      next_launch_(clock.Now()) {}

void EngineSupervisor::Start(EngineAccess access) {
  DropProcess();
  access_ = std::move(access);
  started_ = wanted_ = true;
  if (failed_starts_ == 0) next_launch_ = clock_.Now();
  mailbox_.Post([] {});  // so that the next Tick is soon
}

void EngineSupervisor::Stop() {
  DropProcess();
  started_ = false;
  failed_starts_ = 0;
}

void EngineSupervisor::DropProcess() {
  ++generation_;
  hello_.reset();
  engine_.reset();
}

void EngineSupervisor::Tick() {
  if (!started_) return;
  const SteadyTime now = clock_.Now();
  if (engine_ == nullptr) {
    if (now >= next_launch_) Launch();
  } else if (!hello_.has_value() && now - launched_at_ > options_.hello_timeout) {
    engine_->Kill(EngineExit::Kind::kHang);
  }
}

void EngineSupervisor::Launch() {
  const int generation = ++generation_;
  hello_.reset();
  bad_messages_ = 0;
  launched_at_ = clock_.Now();
  if (!std::exchange(wanted_, false)) ++restarts_;
  absl::StatusOr<std::unique_ptr<Engine>> engine = launcher_.Launch(
      access_, [this, generation] { mailbox_.Post([this, generation] { Read(generation); }); });
  if (!engine.ok()) {
    LogError("cannot start the engine", {{"error", engine.status().ToString()}});
    last_failure_ = std::string(engine.status().message());
    HandleExit({EngineExit::Kind::kLaunchFailed, 0});
    return;
  }
  engine_ = *std::move(engine);
}

void EngineSupervisor::Read(int generation) {
  if (generation != generation_ || engine_ == nullptr) return;
  for (const Engine::Event& event : engine_->Take()) {
    if (generation != generation_) return;  // what came before has led to its replacement
    if (event.exit.has_value()) {
      HandleExit(*event.exit);
      return;
    }
    HandleMessage(event.message);
  }
}

void EngineSupervisor::HandleMessage(const std::string& bytes) {
  internal::EngineMessage message;
  if (!message.ParseFromString(bytes) ||
      message.message_case() == internal::EngineMessage::MESSAGE_NOT_SET) {
    if (++bad_messages_ <= kMaxLoggedBadMessages) {
      LogWarning("ignored a message of the engine that cannot be read", {{"bytes", bytes.size()}});
    }
    return;
  }
  last_message_ = clock_.Now();
  if (message.has_hello()) {
    if (hello_.has_value()) return;
    const internal::Hello& hello = message.hello();
    hello_ = last_hello_ = hello;
    failed_starts_ = 0;
    ever_ready_ = true;
    LogInfo(
        "engine is up",
        {{"device", hello.device()}, {"threads", hello.threads()}, {"version", hello.version()}});
    listener_.on_ready();
  } else if (hello_.has_value()) {
    listener_.on_message(message);
  }
}

void EngineSupervisor::HandleExit(const EngineExit& exit) {
  const bool came_up = hello_.has_value();
  if (!came_up) {
    ++failed_starts_;
    if (exit.kind != EngineExit::Kind::kLaunchFailed) last_failure_ = exit.Describe();
    // A device that worked before may work again.
    if (exit.kind == EngineExit::Kind::kCode && exit.code == kUsage && !ever_ready_) {
      failed_starts_ = kHopeless;
      last_failure_ = "it refuses the device or another flag; see its message above";
    }
  }
  absl::Duration delay = options_.min_restart_delay;
  for (int i = 1; i < failed_starts_ && delay < options_.max_restart_delay; ++i) delay *= 2;
  next_launch_ = clock_.Now() + std::min(delay, options_.max_restart_delay);
  LogWarning("engine ended", {{"how", exit.Describe()}});
  hello_.reset();
  engine_.reset();
  listener_.on_exit(exit);
}

void EngineSupervisor::Send(const internal::WorkerRequest& request) {
  if (engine_ == nullptr) return;
  const std::string bytes = request.SerializeAsString();
  if (bytes.size() <= kMaxMessageBytes) return engine_->Send(bytes);
  internal::EngineMessage refusal;
  refusal.set_job(request.job());
  refusal.set_id(request.id());
  *refusal.mutable_refused() = ToRpcStatus(
      WithReason(absl::ResourceExhaustedError("the request is larger than an engine takes: 1 MiB"),
                 reason::kSizeLimit));
  mailbox_.Post([this, generation = generation_, refusal = std::move(refusal)] {
    if (generation == generation_) listener_.on_message(refusal);
  });
}

void EngineSupervisor::Kill(EngineExit::Kind kind) {
  if (engine_ != nullptr) engine_->Kill(kind);
}

}  // namespace nerf
