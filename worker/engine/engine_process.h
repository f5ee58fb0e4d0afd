#pragma once

#include <memory>

#include "worker/engine/engine.h"
#include "worker/engine/engine_child.h"

namespace nerf {

// Runs `nerf-engine serve` as a child process with one end of a socket pair as file descriptor 3,
// in its own process group. It is killed when this process dies. One thread per child does all its
// IO and stops reading while the agent takes no messages, so memory stays bounded.
class EngineProcessLauncher final : public EngineLauncher {
 public:
  explicit EngineProcessLauncher(EngineProcessOptions options);
  absl::StatusOr<std::unique_ptr<Engine>> Launch(const EngineAccess& access,
                                                 std::function<void()> on_readable) override;

 private:
  const EngineProcessOptions options_;
};

}  // namespace nerf
