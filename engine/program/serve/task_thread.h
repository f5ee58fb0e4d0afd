#pragma once

#include <functional>

#include "common/mutex.h"
#include "engine/base/background_thread.h"

namespace nerf {

// Runs tasks one after the other on a thread of its own. Used from one thread.
class TaskThread {
 public:
  // name: see BackgroundThread.
  explicit TaskThread(const char* name);
  // Waits for the task at work.
  ~TaskThread();

  // Begins `task` and returns; waits first while the one before is at work.
  void Run(std::function<void()> task);
  // Waits for the task at work.
  void Wait();

 private:
  void Work();

  Mutex mu_;
  CondVar changed_;
  std::function<void()> task_ ABSL_GUARDED_BY(mu_);  // unset: idle
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  BackgroundThread thread_;  // last member: it uses those above
};

}  // namespace nerf
