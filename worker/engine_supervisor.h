#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "worker/engine.h"
#include "worker/engine_messages.h"
#include "worker/mailbox.h"

namespace nerf {

struct EngineSupervisorOptions {
  absl::Duration hello_timeout = absl::Seconds(60);
  absl::Duration min_restart_delay = absl::Milliseconds(100);
  absl::Duration max_restart_delay = absl::Seconds(5);
};

// Keeps one engine process running: starts it, waits for its hello, reads its messages, starts it
// again after its end (at once when it had come up, with growing delays when it had not).
// Lives on the agent's thread.
class EngineSupervisor {
 public:
  struct Listener {
    std::function<void()> on_ready;  // hello has come
    std::function<void(const EngineMessage&)> on_message;
    // The process is gone, and all that it was asked for with it.
    std::function<void(const EngineExit&)> on_exit;
  };

  // All outlive this; the mailbox runs nothing once this is destroyed.
  EngineSupervisor(EngineSupervisorOptions options, const Clock& clock, EngineLauncher& launcher,
                   Mailbox& mailbox, Listener listener);

  // Starts the engine when one is due, kills one that says no hello.
  void Tick();

  bool ready() const { return engine_ != nullptr && hello_.has_value(); }
  // Of the newest engine that came up.
  const EngineHello& last_hello() const { return last_hello_; }
  // When the engine last said something.
  SteadyTime last_message() const { return last_message_; }
  // Processes started again, so far.
  int restarts() const { return restarts_; }
  // Starts in a row that came to nothing, and why the last one did. kHopeless where the first
  // engine refused its command line (a device that is not there): each further one would.
  static constexpr int kHopeless = 1'000'000;
  int failed_starts() const { return failed_starts_; }
  const std::string& last_failure() const { return last_failure_; }

  // Requires: ready(). A line that ends in a newline.
  void Send(std::string line);
  // on_exit follows. Does nothing without a process.
  void Kill(EngineExit::Kind kind);

 private:
  void Launch();
  void Read(int generation);
  void HandleLine(const std::string& line);
  void HandleExit(const EngineExit& exit);

  // Const after construction.
  const EngineSupervisorOptions options_;
  const Clock& clock_;
  EngineLauncher& launcher_;
  Mailbox& mailbox_;
  const Listener listener_;

  std::unique_ptr<Engine> engine_;
  int generation_ = 0;  // tells news of an earlier process from the present one's
  std::optional<EngineHello> hello_;
  EngineHello last_hello_;
  bool ever_ready_ = false;
  SteadyTime launched_at_, last_message_, next_launch_;
  int launches_ = 0, restarts_ = 0, failed_starts_ = 0;
  int bad_lines_ = 0;
  std::string last_failure_;
};

}  // namespace nerf
