#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace nerf {

// Turns SIGINT and SIGTERM into a stop request; the second one ends the process at once. Make it
// first in a command, before any other thread: threads inherit that both signals are blocked.
class SignalWatcher {
 public:
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  // 130 or 143 for the signal that came; 0 when none did.
  int exit_code() const { return exit_code_; }

 private:
  void Watch();

  std::stop_source source_;
  std::atomic<int> exit_code_{0};
  int signal_fd_ = -1, end_fd_ = -1;
  std::thread thread_;
};

}  // namespace nerf
