#include "server/main/end_signals.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "common/logging.h"

namespace nerf {

EndSignals::EndSignals() {
  sigemptyset(&signals_);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, number);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

std::optional<int> EndSignals::Wait(absl::Duration timeout) {
  int number = -1;
  if (timeout == absl::InfiniteDuration()) {
    sigwait(&signals_, &number);
  } else {
    const timespec time = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
    number = sigtimedwait(&signals_, nullptr, &time);
  }
  if (number < 0) return std::nullopt;
  LogInfo("shutting down", {{"signal", number}});
  std::thread([signals = signals_] {
    int second = 0;
    sigwait(&signals, &second);
    _exit(128 + second);
  }).detach();
  return number;
}

}  // namespace nerf
