#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/engine_child.h"

namespace nerf {

// How an engine starts.
struct EngineTrial {
  bool works = false;  // it has said hello
  // What the system answered with EPERM, EACCES or ENOSYS, each once: "openat /dev/nvidia0",
  // "socket of family 1 and type 5". Empty as well where this system forbids tracing.
  std::vector<std::string> refused;
};

// Starts an engine, traces it until it says hello or ends, and kills it. Takes at most a minute.
// Call it from a thread that has no other child. Errors: those of EngineChild.
absl::StatusOr<EngineTrial> TryEngine(const EngineProcessOptions& options);

// Tries the engine outside its sandbox, and then in it. If it works only outside: what the sandbox
// refused, and what to do, in at most 1000 bytes. Else empty.
std::string ExplainSandbox(EngineProcessOptions options);

}  // namespace nerf
