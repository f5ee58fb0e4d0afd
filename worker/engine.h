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
    kSignal,       // a signal that was not ours
    kKilled,       // killed by us because it would not stop
    kHang,         // killed by us because it went silent
    kLaunchFailed  // never ran
  };
  Kind kind = Kind::kClean;
  int code = 0;  // exit code or signal number

  // "exit code 3", "signal 11 (Segmentation fault)", ... for people.
  std::string Describe() const;
};

// A running engine. One thread uses it (the agent's); `on_readable`, given at launch, is called
// from another thread whenever Take has something new.
class Engine {
 public:
  // A line without its newline, or the end of the process; after the end nothing comes.
  struct Event {
    std::string line;
    std::optional<EngineExit> exit;
  };

  // Kills the process, where it still lives, and waits for its end.
  virtual ~Engine() = default;

  // Queues bytes that end in a newline. Lost when the process is gone.
  virtual void Send(std::string line) = 0;

  // What has come since the last call. Lines that passed the limit were dropped.
  virtual std::vector<Event> Take() = 0;

  // Kills the process with SIGKILL; its end, of this kind, comes through Take.
  virtual void Kill(EngineExit::Kind kind) = 0;
};

// Starts engines.
class EngineLauncher {
 public:
  virtual ~EngineLauncher() = default;
  // Errors: NotFound or PermissionDenied where the program cannot be run; Internal.
  virtual absl::StatusOr<std::unique_ptr<Engine>> Launch(std::function<void()> on_readable) = 0;
};

}  // namespace nerf
