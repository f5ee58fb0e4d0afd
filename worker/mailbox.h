#pragma once

#include <deque>
#include <functional>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace nerf {

// What other threads want done on the agent's thread. Thread-safe; RunAll belongs to that thread.
class Mailbox {
 public:
  using Action = std::function<void()>;

  void Post(Action action);

  // Runs everything that is there, and what that posts in turn. Returns how many actions ran.
  int RunAll();

  // Waits until something is there or `timeout` has passed.
  void Wait(absl::Duration timeout);

 private:
  Mutex mu_;
  CondVar posted_;
  std::deque<Action> actions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
