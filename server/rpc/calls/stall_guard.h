#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "server/rpc/calls/executor.h"

namespace grpc {
class CallbackServerContext;
}

namespace nerf {

// Ends a streaming call with UNAVAILABLE when its peer neither sends nor takes a message for a
// time between `limit` and twice that. Thread-safe.
class StallGuard {
 public:
  // The executor outlives it. `context` is only used here; on_stall runs on the executor.
  StallGuard(Executor* executor, grpc::CallbackServerContext* context, absl::Duration limit,
             std::function<void()> on_stall = {});
  ~StallGuard();
  StallGuard(const StallGuard&) = delete;
  StallGuard& operator=(const StallGuard&) = delete;

  // An operation that waits for the peer begins, ends. One at a time.
  void Begin();
  void End();

 private:
  struct State;
  static void Arm(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace nerf
