#include "engine/base/parallel_for.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sched.h>

#include <algorithm>
#include <utility>

namespace nerf {
namespace {

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

// Waits a little for what a thread that works will do next, some tens of microseconds: phases of a
// step follow each other so closely that sleeping between them cost 1% of it on two cores.
template <typename Condition>
void SpinUntil(const Condition& is_met) {
  constexpr int kPauses = 1000;
  for (int i = 0; i < kPauses && !is_met(); ++i) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }
}

}  // namespace

void FlushDenormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // bit 15 FTZ, bit 6 DAZ
#elif defined(__aarch64__)
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" ::"r"(fpcr | (uint64_t{1} << 24)));
#endif
}

ThreadPool::ThreadPool(int n_threads) {
  if (n_threads <= 0) n_threads = UsableCores();
  FlushDenormals();
  for (int thread = 1; thread < n_threads; ++thread) {
    threads_.emplace_back([this, thread] { Work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mu_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ParallelFor(int64_t n, const std::function<void(int64_t, int)>& task) {
  FlushDenormals();
  if (n <= 0) return;
  if (threads_.empty() || n == 1) {
    for (int64_t i = 0; i < n; ++i) task(i, 0);
    return;
  }
  {
    std::lock_guard lock(mu_);
    task_ = &task;
    n_tasks_ = n;
    next_task_.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(threads_.size());
    ++generation_;
  }
  start_.notify_all();
  RunTasks(0);
  SpinUntil([this] { return busy_ == 0; });
  std::unique_lock lock(mu_);
  finished_.wait(lock, [this] { return busy_ == 0; });
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::RunTasks(int thread) noexcept {
  try {
    while (true) {
      const int64_t index = next_task_.fetch_add(1, std::memory_order_relaxed);
      if (index >= n_tasks_) return;
      (*task_)(index, thread);
    }
  } catch (...) {
    next_task_.store(n_tasks_, std::memory_order_relaxed);
    std::lock_guard lock(mu_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
}

void ThreadPool::Work(int thread) {
  FlushDenormals();
  uint64_t seen = 0;
  while (true) {
    SpinUntil([&] { return generation_ != seen; });
    {
      std::unique_lock lock(mu_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    RunTasks(thread);
    std::lock_guard lock(mu_);
    if (--busy_ == 0) finished_.notify_one();
  }
}

}  // namespace nerf
