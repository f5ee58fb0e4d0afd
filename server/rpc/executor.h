#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace nerf {

// Threads that run what must not block gRPC's own few threads: everything that touches the disk or
// waits for the queue's lock. Tasks of different calls run in any order. Thread-safe.
class Executor {
 public:
  explicit Executor(int n_threads);
  // Runs what was posted, drops what is due later, and joins. Nobody may post any more.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(std::function<void()> task);
  // Posts after `delay`, on the machine's steady clock. Tasks check themselves whether they still
  // apply.
  void PostAfter(absl::Duration delay, std::function<void()> task);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace nerf
