#include "engine/program/serve/task_thread.h"

#include <utility>

namespace nerf {

TaskThread::TaskThread(const char* name) : thread_(name, [this] { Work(); }) {}

TaskThread::~TaskThread() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

void TaskThread::Run(std::function<void()> task) {
  MutexLock lock(mu_);
  while (task_) changed_.Wait(mu_);
  task_ = std::move(task);
  changed_.NotifyAll();
}

void TaskThread::Wait() {
  MutexLock lock(mu_);
  while (task_) changed_.Wait(mu_);
}

void TaskThread::Work() {
  MutexLock lock(mu_);
  while (true) {
    while (!task_ && !closed_) changed_.Wait(mu_);
    if (!task_) return;
    const std::function<void()> task = task_;
    mu_.Unlock();
    task();
    mu_.Lock();
    task_ = nullptr;
    changed_.NotifyAll();
  }
}

}  // namespace nerf
