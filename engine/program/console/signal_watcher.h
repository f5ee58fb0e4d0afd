#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace nerf {

// Turns SIGINT and SIGTERM into a stop request; a SIGINT after that ends the process at once. A
// SIGTERM does not: the kernel repeats that of ChildProcessSpec::stop_grace for each thread of a
// parent that dies.
// Construct it before any thread starts: it blocks both signals, and threads inherit the mask.
class SignalWatcher {
 public:
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  // 130 or 143 after a signal; 0 before.
  int exit_code() const { return exit_code_; }

 private:
  void Watch();

  std::stop_source source_;
  std::atomic<int> exit_code_{0};
  int signal_fd_ = -1, end_fd_ = -1;
  std::thread thread_;
};

}  // namespace nerf
