#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "nerf/internal/engine.pb.h"
#include "worker/base/mailbox.h"
#include "worker/engine/engine.h"

namespace nerf {

struct EngineSupervisorOptions {
  absl::Duration hello_timeout = absl::Seconds(60);
  absl::Duration min_restart_delay = absl::Milliseconds(100);
  absl::Duration max_restart_delay = absl::Seconds(5);
};

// Keeps one engine process running between Start and Stop: starts it, waits for its hello, reads
// its messages and starts it again after its end. After failed starts the delay grows. Used from
// the agent's thread.
class EngineSupervisor {
 public:
  struct Listener {
    std::function<void()> on_ready;  // after hello
    std::function<void(const internal::EngineMessage&)> on_message;
    // The process has ended; it will not answer earlier requests.
    std::function<void(const EngineExit&)> on_exit;
  };

  // All outlive this. The mailbox is not run after this is destroyed.
  EngineSupervisor(EngineSupervisorOptions options, const Clock& clock, EngineLauncher& launcher,
                   Mailbox& mailbox, Listener listener);

  // Starts a new engine process with this access at the next Tick. A running one ends now, without
  // a call of on_exit. Requires: it has nothing to do.
  void Start(EngineAccess access);
  // Ends the process, without a call of on_exit.
  void Stop();

  // Starts an engine if one is due; kills one that sends no hello in time.
  void Tick();

  bool ready() const { return engine_ != nullptr && hello_.has_value(); }
  // The last hello received, perhaps from an earlier process.
  const internal::Hello& last_hello() const { return last_hello_; }
  // Time of the last valid message.
  SteadyTime last_message() const { return last_message_; }
  // How often the process was started again.
  int restarts() const { return restarts_; }
  // Failed starts in a row, and the reason of the last. kHopeless if the very first engine refused
  // its command line, for example a missing device: every other would, too.
  static constexpr int kHopeless = 1'000'000;
  int failed_starts() const { return failed_starts_; }
  const std::string& last_failure() const { return last_failure_; }

  // A message above kMaxMessageBytes is not sent: the listener is told that it was refused.
  // Requires: ready().
  void Send(const internal::WorkerRequest& request);
  // on_exit follows. Does nothing without a process.
  void Kill(EngineExit::Kind kind);

 private:
  void Launch();
  void DropProcess();
  void Read(int generation);
  void HandleMessage(const std::string& bytes);
  void HandleExit(const EngineExit& exit);

  // Const after construction.
  const EngineSupervisorOptions options_;
  const Clock& clock_;
  EngineLauncher& launcher_;
  Mailbox& mailbox_;
  const Listener listener_;

  bool started_ = false;
  EngineAccess access_;
  std::unique_ptr<Engine> engine_;
  int generation_ = 0;  // of the process; callbacks of earlier ones are ignored
  std::optional<internal::Hello> hello_;
  internal::Hello last_hello_;
  bool ever_ready_ = false;
  SteadyTime launched_at_, last_message_, next_launch_;
  int restarts_ = 0, failed_starts_ = 0;
  bool wanted_ = false;  // the next launch is by Start, not a restart
  int bad_messages_ = 0;
  std::string last_failure_;
};

}  // namespace nerf
