#include "server/rpc/executor.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace nerf {

struct Executor::State {
  using Time = std::chrono::steady_clock::time_point;

  void Work() {
    while (true) {
      std::function<void()> task;
      {
        MutexLock lock(mu);
        while (tasks.empty() && !stopping) work_there.Wait(mu);
        if (tasks.empty()) return;
        task = std::move(tasks.front());
        tasks.pop_front();
      }
      task();
    }
  }

  void Keep() {
    MutexLock lock(mu);
    while (!stopping) {
      if (timers.empty()) {
        timer_there.Wait(mu);
        continue;
      }
      const Time now = std::chrono::steady_clock::now();
      const auto first = timers.begin();
      const Time due = first->first.first;
      if (due > now) {
        timer_there.WaitFor(mu, absl::FromChrono(due - now));
        continue;
      }
      tasks.push_back(std::move(first->second));
      timers.erase(first);
      work_there.NotifyOne();
    }
  }

  Mutex mu;
  CondVar work_there, timer_there;
  std::deque<std::function<void()>> tasks ABSL_GUARDED_BY(mu);
  std::map<Timer, std::function<void()>> timers ABSL_GUARDED_BY(mu);
  uint64_t next_timer ABSL_GUARDED_BY(mu) = 1;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  std::vector<std::thread> threads;
};

Executor::Executor(int n_threads) : state_(std::make_unique<State>()) {
  for (int i = 0; i < n_threads; ++i) state_->threads.emplace_back([this] { state_->Work(); });
  state_->threads.emplace_back([this] { state_->Keep(); });
}

Executor::~Executor() {
  std::map<Timer, std::function<void()>> dropped;
  {
    MutexLock lock(state_->mu);
    state_->stopping = true;
    dropped.swap(state_->timers);
  }
  state_->work_there.NotifyAll();
  state_->timer_there.NotifyAll();
  for (std::thread& thread : state_->threads) thread.join();
}

void Executor::Post(std::function<void()> task) {
  {
    MutexLock lock(state_->mu);
    state_->tasks.push_back(std::move(task));
  }
  state_->work_there.NotifyOne();
}

Executor::Timer Executor::PostAfter(absl::Duration delay, std::function<void()> task) {
  delay = std::clamp(delay, absl::ZeroDuration(), absl::Hours(24 * 365));
  Timer timer(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay), 0);
  {
    MutexLock lock(state_->mu);
    timer.second = state_->next_timer++;
    if (state_->stopping) return timer;
    state_->timers.emplace(timer, std::move(task));
  }
  state_->timer_there.NotifyOne();
  return timer;
}

size_t Executor::n_timers() const {
  MutexLock lock(state_->mu);
  return state_->timers.size();
}

void Executor::Drop(const Timer& timer) {
  std::function<void()> dropped;  // dies without the lock
  MutexLock lock(state_->mu);
  const auto found = state_->timers.find(timer);
  if (found == state_->timers.end()) return;
  dropped = std::move(found->second);
  state_->timers.erase(found);
}

}  // namespace nerf
