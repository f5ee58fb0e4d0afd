#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/file_io.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_sandbox.h"

namespace nerf {

struct EngineProcessOptions {
  std::string program;                 // path of nerf-engine
  std::vector<std::string> arguments;  // after argv[0], e.g. serve --device cpu
  EngineSandboxOptions sandbox = {};   // besides what each engine may reach
};

// An engine process before its exec. Everything is made before the fork, since the child may only
// make async-signal-safe calls.
class EngineChild {
 public:
  // Exit code of a child that this system does not let this process trace.
  static constexpr int kNotTraced = 125;

  // Errors: NotFound or PermissionDenied if the program cannot be run; those of the system.
  static absl::StatusOr<std::unique_ptr<EngineChild>> Prepare(const EngineProcessOptions& options,
                                                              const EngineAccess& access);

  // Forks. The child becomes the engine: in its sandbox, in its own process group, with one end of
  // a socket pair as descriptor 3. It is killed when the calling thread ends. `traced`: it first
  // stops, traced by this thread. Returns its id; -1 on failure.
  pid_t Fork(bool traced = false) const;

  // This process's end of the socket pair, non-blocking.
  UniqueFd TakeSocket() { return std::move(ours_); }
  const EngineSandbox& sandbox() const { return sandbox_; }

 private:
  EngineChild(EngineSandbox sandbox, const EngineProcessOptions& options, UniqueFd ours,
              UniqueFd theirs);

  const EngineSandbox sandbox_;
  const std::vector<std::string> arguments_;
  const std::vector<char*> argv_;  // into arguments_
  UniqueFd ours_;
  const UniqueFd theirs_;
};

}  // namespace nerf
