#include "common/sleep.h"

#include <chrono>

#include "common/mutex.h"

namespace nerf {

bool SleepUnlessStopped(absl::Duration duration, const std::stop_token& stop) {
  const auto begin = std::chrono::steady_clock::now();
  Mutex mu;
  CondVar stopped;
  const std::stop_callback wake(stop, [&] {
    MutexLock lock(mu);  // else it could come between the check of `stop` and the wait
    stopped.NotifyAll();
  });
  MutexLock lock(mu);
  while (!stop.stop_requested()) {
    const absl::Duration left =
        duration - absl::FromChrono(std::chrono::steady_clock::now() - begin);
    if (left <= absl::ZeroDuration()) return true;
    stopped.WaitFor(mu, left);
  }
  return false;
}

}  // namespace nerf
