#include "server/rpc/calls/executor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace nerf {
namespace {
constexpr size_t kNLanes = 5;
// Digests of large uploads use whole cores, so other lanes get a higher priority.
constexpr int kUploadNice = 10;
// A watch of a list has as much to send as hundreds of watches of jobs.
constexpr int kListsNice = 5;
}  // namespace

// The tasks of one lane and the threads that run them.
struct Executor::Queue {
  void Start(int n_threads, int nice) {
    for (int i = 0; i < n_threads; ++i) {
      threads.emplace_back([this, nice] {
        // Linux applies it to this thread only. If it fails, the thread runs at normal priority.
        if (nice != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
        Work();
      });
    }
  }

  void Work() {
    while (true) {
      Task task;
      {
        MutexLock lock(mu);
        while (tasks.empty() && !stopping) arrived.Wait(mu);
        if (tasks.empty()) return;
        task = std::move(tasks.front());
        tasks.pop_front();
        n_bytes -= task.byte_size;
      }
      task.run();
    }
  }

  void Post(std::function<void()> run) {
    {
      MutexLock lock(mu);
      tasks.push_back({std::move(run), 0});
    }
    arrived.NotifyOne();
  }

  bool TryPost(size_t byte_size, std::function<void()> run) {
    {
      MutexLock lock(mu);
      const bool is_full = tasks.size() >= kMaxWaiting || n_bytes + byte_size > kMaxWaitingBytes;
      if (is_full && byte_size > 0 && !tasks.empty()) return false;
      tasks.push_back({std::move(run), byte_size});
      n_bytes += byte_size;
    }
    arrived.NotifyOne();
    return true;
  }

  void Stop() {
    {
      MutexLock lock(mu);
      stopping = true;
    }
    arrived.NotifyAll();
  }

  struct Task {
    std::function<void()> run;
    size_t byte_size = 0;  // of its request
  };
  Mutex mu;
  CondVar arrived;
  std::deque<Task> tasks ABSL_GUARDED_BY(mu);
  size_t n_bytes ABSL_GUARDED_BY(mu) = 0;  // of the tasks that wait
  bool stopping ABSL_GUARDED_BY(mu) = false;
  std::vector<std::thread> threads;
};

struct Executor::State {
  // Posts delayed tasks when they are due.
  void KeepTime() {
    MutexLock lock(mu);
    while (!stopping) {
      if (timers.empty()) {
        timer_set.Wait(mu);
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      const auto first = timers.begin();
      const auto due = first->first.first;
      if (due > now) {
        timer_set.WaitFor(mu, absl::FromChrono(due - now));
        continue;
      }
      queues[static_cast<size_t>(Lane::kQuick)].Post(std::move(first->second));
      timers.erase(first);
    }
  }

  std::array<Queue, kNLanes> queues;
  Mutex mu;
  CondVar timer_set;
  std::map<Timer, std::function<void()>> timers ABSL_GUARDED_BY(mu);
  uint64_t next_timer ABSL_GUARDED_BY(mu) = 1;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  std::thread timekeeper;
};

Executor::Executor(const ExecutorThreads& threads) : state_(std::make_unique<State>()) {
  QueueOf(Lane::kQuick).Start(threads.quick, 0);
  QueueOf(Lane::kLists).Start(threads.lists, kListsNice);
  QueueOf(Lane::kCommit).Start(threads.commit, 0);
  QueueOf(Lane::kRead).Start(threads.read, 0);
  QueueOf(Lane::kUpload).Start(threads.upload, kUploadNice);
  state_->timekeeper = std::thread([this] { state_->KeepTime(); });
}

Executor::~Executor() {
  std::map<Timer, std::function<void()>> dropped;
  {
    MutexLock lock(state_->mu);
    state_->stopping = true;
    dropped.swap(state_->timers);
  }
  state_->timer_set.NotifyAll();
  state_->timekeeper.join();
  // Running tasks may post to other lanes, so the quick lane ends last, after that of commits.
  for (const Lane lane : {Lane::kUpload, Lane::kRead, Lane::kCommit, Lane::kLists, Lane::kQuick}) {
    QueueOf(lane).Stop();
    for (std::thread& thread : QueueOf(lane).threads) thread.join();
  }
}

Executor::Queue& Executor::QueueOf(Lane lane) { return state_->queues[static_cast<size_t>(lane)]; }

void Executor::Post(Lane lane, std::function<void()> task) { QueueOf(lane).Post(std::move(task)); }

bool Executor::TryPost(Lane lane, size_t byte_size, std::function<void()> task) {
  return QueueOf(lane).TryPost(byte_size, std::move(task));
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
  state_->timer_set.NotifyOne();
  return timer;
}

size_t Executor::n_timers() const {
  MutexLock lock(state_->mu);
  return state_->timers.size();
}

void Executor::Drop(const Timer& timer) {
  std::function<void()> dropped;  // destroyed without the lock
  MutexLock lock(state_->mu);
  const auto found = state_->timers.find(timer);
  if (found == state_->timers.end()) return;
  dropped = std::move(found->second);
  state_->timers.erase(found);
}

}  // namespace nerf
