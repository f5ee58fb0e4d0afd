#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nerf {

// Flushes denormals to zero in the calling thread (FTZ and DAZ). Without it the MLP backward pass
// spends most of its time in microcode once gradients get small.
void FlushDenormals();

// A fixed team of threads; the caller is one of them. With BackgroundThread the only source of
// threads in the engine. ParallelFor may be called from one thread at a time. Results must not
// depend on n_threads: tasks own their outputs. A thread that finds nothing to do spins for some
// tens of microseconds before it sleeps.
class ThreadPool {
 public:
  // n_threads 0 takes one for each core of the process's affinity. Programs ask UsableCores
  // (common/control_groups.h), which knows of quotas, too.
  explicit ThreadPool(int n_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls task(index, thread) for each index in [0, n), in no particular order, thread in [0,
  // n_threads); thread 0 is the caller's. Returns when all are done. The first exception of a task
  // is thrown again when every thread has ended its work; tasks that had not begun are left out.
  void ParallelFor(int64_t n, const std::function<void(int64_t index, int thread)>& task);

 private:
  void Work(int thread);
  void RunTasks(int thread) noexcept;

  std::vector<std::thread> threads_;
  std::mutex mu_;
  std::condition_variable start_;
  std::condition_variable finished_;
  std::atomic<uint64_t> generation_{0};  // written under mu_
  std::atomic<int> busy_{0};             // written under mu_
  bool stopping_ = false;                // guarded by mu_
  std::exception_ptr error_;             // guarded by mu_
  const std::function<void(int64_t, int)>* task_ = nullptr;
  int64_t n_tasks_ = 0;
  std::atomic<int64_t> next_task_{0};
};

}  // namespace nerf
