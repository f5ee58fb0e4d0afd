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

// Waits for `is_met`, but at most some tens of microseconds. The phases of a training step follow
// each other so closely that sleeping between them cost 1% of the step on two cores.
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
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  start_.NotifyAll();
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
    const MutexLock lock(mu_);
    task_ = &task;
    n_tasks_ = n;
    next_task_.store(0, std::memory_order_relaxed);
    n_busy_ = static_cast<int>(threads_.size());
    ++generation_;
  }
  start_.NotifyAll();
  RunTasks(0);
  SpinUntil([this] { return n_busy_ == 0; });
  const MutexLock lock(mu_);
  while (n_busy_ != 0) finished_.Wait(mu_);
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
    const MutexLock lock(mu_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
}

void ThreadPool::Work(int thread) {
  FlushDenormals();
  uint64_t last_generation = 0;
  while (true) {
    SpinUntil([&] { return generation_ != last_generation; });
    {
      const MutexLock lock(mu_);
      while (!stopping_ && generation_ == last_generation) start_.Wait(mu_);
      if (stopping_) return;
      last_generation = generation_;
    }
    RunTasks(thread);
    const MutexLock lock(mu_);
    if (--n_busy_ == 0) finished_.NotifyOne();
  }
}

}  // namespace nerf
