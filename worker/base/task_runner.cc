#include "worker/base/task_runner.h"

#include <utility>

namespace nerf {

ThreadTaskRunner::ThreadTaskRunner(Mailbox& mailbox) : mailbox_(mailbox) {
  for (LaneState& lane : lanes_) lane.thread = std::thread([this, &lane] { RunLane(lane); });
}

ThreadTaskRunner::~ThreadTaskRunner() {
  for (LaneState& lane : lanes_) {
    {
      MutexLock lock(lane.mu);
      lane.stopping = true;
    }
    lane.changed.NotifyAll();
  }
  for (LaneState& lane : lanes_) lane.thread.join();
}

void ThreadTaskRunner::Run(Lane lane, Action work, Action done) {
  LaneState& state = lanes_[static_cast<size_t>(lane)];
  {
    MutexLock lock(state.mu);
    state.tasks.push_back({std::move(work), std::move(done)});
  }
  state.changed.NotifyOne();
}

void ThreadTaskRunner::RunLane(LaneState& lane) {
  while (true) {
    Task task;
    {
      MutexLock lock(lane.mu);
      while (lane.tasks.empty() && !lane.stopping) lane.changed.Wait(lane.mu);
      if (lane.stopping) return;
      task = std::move(lane.tasks.front());
      lane.tasks.pop_front();
    }
    task.work();
    task.work = nullptr;
    mailbox_.Post(std::move(task.done));
  }
}

}  // namespace nerf
