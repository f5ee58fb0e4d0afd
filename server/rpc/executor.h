#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"

namespace nerf {

// What a task may wait for. Each lane has threads of its own, so that no task waits behind one that
// waits for something slower.
enum class Lane {
  kQuick,   // nothing but locks that are held for moments: heartbeats, watches, reads of the queue
  kCommit,  // the store's next commit
  kRead,    // reads of blobs
  kUpload   // writes and syncs of blobs
};

// How many threads each lane has.
struct ExecutorThreads {
  int quick = 4;
  int commit = 16;  // they only wait: commits are made on the store's own thread
  int read = 4;
  int upload = 4;
};

// Threads that run what must not block gRPC's own few threads. Tasks of a lane begin in the order
// in which they were posted. Thread-safe.
class Executor {
 public:
  explicit Executor(const ExecutorThreads& threads = {});
  // Runs what was posted, drops what is due later, and joins. Nobody may post any more.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(Lane lane, std::function<void()> task);

  // Which of the tasks that wait for their time: when it is due, and a serial number.
  using Timer = std::pair<std::chrono::steady_clock::time_point, uint64_t>;

  // Posts to the quick lane after `delay`, on the machine's steady clock. Tasks check themselves
  // whether they still apply.
  Timer PostAfter(absl::Duration delay, std::function<void()> task);
  // Forgets a task that is not due yet; one that is due may run all the same.
  void Drop(const Timer& timer);
  // Number of delayed tasks.
  size_t n_timers() const;

 private:
  struct Queue;
  struct State;
  Queue& QueueOf(Lane lane);
  const std::unique_ptr<State> state_;
};

}  // namespace nerf
