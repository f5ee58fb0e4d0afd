#pragma once

#include <deque>
#include <functional>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace nerf {

// Functions that other threads want to run on the agent's thread. Thread-safe; only that thread
// calls RunAll and Wait.
class Mailbox {
 public:
  using Action = std::function<void()>;

  void Post(Action action);

  // Runs all actions, also those that they post. Returns how many ran.
  int RunAll();

  // Waits until there is an action or `timeout` has passed.
  void Wait(absl::Duration timeout);

 private:
  Mutex mu_;
  CondVar posted_;
  std::deque<Action> actions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
