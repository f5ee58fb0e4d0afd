#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

// How an engine process ended.
struct EngineExit {
  enum class Kind {
    kClean,        // exit code 0
    kCode,         // another exit code
    kSignal,       // a signal that this worker did not send
    kKilled,       // killed by this worker because it did not stop
    kHang,         // killed by this worker because it was silent
    kLaunchFailed  // never ran
  };
  Kind kind = Kind::kClean;
  int code = 0;  // exit code or signal number

  // "exit code 3", "signal 11 (Segmentation fault)", ... for people.
  std::string Describe() const;
};

// A running engine. Used from the agent's thread. The `on_readable` given at launch is called from
// another thread when Take has something new.
class Engine {
 public:
  // A serialized message, or the end of the process, which is the last event.
  struct Event {
    std::string message;
    std::optional<EngineExit> exit;
  };

  // Kills the process if it still runs, and waits for its end.
  virtual ~Engine() = default;

  // Queues a serialized message. It is lost if the process ends.
  virtual void Send(const std::string& message) = 0;

  // The events since the last call. Messages above kMaxMessageBytes are dropped.
  virtual std::vector<Event> Take() = 0;

  // Kills the process with SIGKILL. Take then returns an exit of this kind.
  virtual void Kill(EngineExit::Kind kind) = 0;
};

// What one engine may reach.
struct EngineAccess {
  std::vector<std::string> read_paths = {};   // folders that it may read
  std::vector<std::string> write_paths = {};  // folders that it may read and write
  bool ranks = false;                         // whether it may connect to engines of other workers
};

// Starts engines.
class EngineLauncher {
 public:
  virtual ~EngineLauncher() = default;
  // Errors: NotFound or PermissionDenied if the program cannot be run; Internal.
  virtual absl::StatusOr<std::unique_ptr<Engine>> Launch(const EngineAccess& access,
                                                         std::function<void()> on_readable) = 0;
};

}  // namespace nerf
