#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"

namespace nerf {

// Lanes of tasks, by what a task may wait for. Each lane has its own threads, so that no task waits
// for a slower kind.
enum class Lane {
  kQuick,   // only briefly held locks: heartbeats, watches of jobs, reads of the queue
  kLists,   // the same, for many rows: watches of lists
  kCommit,  // the store's next commit
  kRead,    // reads of blobs
  kUpload   // writes and syncs of blobs
};

// Number of threads of each lane.
struct ExecutorThreads {
  int quick = 4;
  int lists = 2;
  int commit = 16;  // they only wait; the store's own thread commits
  int read = 4;
  int upload = 4;
};

// Runs tasks that must not block gRPC's few threads. Tasks of a lane start in the order of posting.
// Thread-safe.
class Executor {
 public:
  explicit Executor(const ExecutorThreads& threads = {});
  // Runs posted tasks, drops delayed ones, and joins. Requires: nobody posts any more.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(Lane lane, std::function<void()> task);
  // Posts the task of a client's call, whose request has this size. Returns false, and does
  // nothing, if kMaxWaiting tasks of the lane wait, or ones of kMaxWaitingBytes together. A size of
  // 0 is always taken.
  [[nodiscard]] bool TryPost(Lane lane, size_t byte_size, std::function<void()> task);

  static constexpr size_t kMaxWaiting = 4096;
  static constexpr size_t kMaxWaitingBytes = size_t{64} << 20;

  // Identifies a delayed task: its due time and a serial number.
  using Timer = std::pair<std::chrono::steady_clock::time_point, uint64_t>;

  // Posts to the quick lane after `delay`, by the machine's steady clock. The task must check
  // whether it still applies.
  Timer PostAfter(absl::Duration delay, std::function<void()> task);
  // Drops a task that is not due yet. A due one may still run.
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
