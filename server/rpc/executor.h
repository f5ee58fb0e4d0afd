#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

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
  // Which of the tasks that wait for their time: when it is due, and a serial number.
  using Timer = std::pair<std::chrono::steady_clock::time_point, uint64_t>;

  // Posts after `delay`, on the machine's steady clock. Tasks check themselves whether they still
  // apply.
  Timer PostAfter(absl::Duration delay, std::function<void()> task);
  // Forgets a task that is not due yet; one that is may run all the same.
  void Drop(const Timer& timer);
  // Tasks that wait for their time.
  size_t n_timers() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace nerf
