#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/engine.h"

namespace nerf {

struct EngineProcessOptions {
  std::string program;                 // path of nerf-engine
  std::vector<std::string> arguments;  // after argv[0], e.g. serve --device cpu
};

// Runs `nerf-engine serve` as a child: a socket pair as its file descriptor 3, a process group of
// its own, killed when this process dies. One thread for each child does all of its IO. When the
// agent does not take lines the thread stops reading, so memory stays bounded.
class EngineProcessLauncher final : public EngineLauncher {
 public:
  explicit EngineProcessLauncher(EngineProcessOptions options);
  absl::StatusOr<std::unique_ptr<Engine>> Launch(std::function<void()> on_readable) override;

 private:
  const EngineProcessOptions options_;
};

}  // namespace nerf
