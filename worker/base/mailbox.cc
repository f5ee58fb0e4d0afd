#include "worker/base/mailbox.h"

#include <utility>

namespace nerf {

void Mailbox::Post(Action action) {
  {
    MutexLock lock(mu_);
    actions_.push_back(std::move(action));
  }
  posted_.NotifyOne();
}

int Mailbox::RunAll() {
  int count = 0;
  while (true) {
    Action action;
    {
      MutexLock lock(mu_);
      if (actions_.empty()) return count;
      action = std::move(actions_.front());
      actions_.pop_front();
    }
    action();
    ++count;
  }
}

void Mailbox::Wait(absl::Duration timeout) {
  MutexLock lock(mu_);
  if (actions_.empty()) posted_.WaitFor(mu_, timeout);
}

}  // namespace nerf
