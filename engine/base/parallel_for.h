#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace nerf {

// Flushes denormals to zero in the calling thread (FTZ and DAZ). Without it the MLP backward pass
// spends most of its time in microcode once gradients get small.
void FlushDenormals();

// A fixed set of threads, one of which is the caller's. Together with BackgroundThread it is the
// engine's only source of threads. ParallelFor may be called from one thread at a time. Results
// must not depend on n_threads: each task writes outputs of its own. An idle thread spins for some
// tens of microseconds before it sleeps.
class ThreadPool {
 public:
  // n_threads 0: one per core of the process's affinity mask. Programs pass UsableCores()
  // (common/process/control_groups.h), which respects cgroup quotas too.
  explicit ThreadPool(int n_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls task(index, thread) for each index in [0, n), in no particular order, thread in [0,
  // n_threads); thread 0 is the caller's. Returns when all calls have returned. After an exception
  // no further task is started, and the first exception is rethrown to the caller.
  void ParallelFor(int64_t n, const std::function<void(int64_t index, int thread)>& task);

 private:
  void Work(int thread);
  void RunTasks(int thread) noexcept;

  std::vector<std::thread> threads_;
  Mutex mu_;
  CondVar start_;
  CondVar finished_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::exception_ptr error_ ABSL_GUARDED_BY(mu_);
  // Atomic because threads spin on them; written under mu_.
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> n_busy_{0};
  // The current call's. Written before generation_ grows, while no other thread runs a task.
  const std::function<void(int64_t, int)>* task_ = nullptr;
  int64_t n_tasks_ = 0;
  std::atomic<int64_t> next_task_{0};
};

}  // namespace nerf
