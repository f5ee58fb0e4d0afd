#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace nerf {

// SIGINT and SIGTERM as a stop token. The first signal asks politely, the second ends the process
// at once with the same exit code. Thread-safe.
class Interrupt {
 public:
  Interrupt() = default;
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Takes over both signals until destroyed. At most one object of a process may.
  void InstallHandlers();

  // What a signal does. `signal` is SIGINT or SIGTERM.
  void Request(int signal);

  std::stop_token token() const { return source_.get_token(); }
  bool requested() const { return source_.stop_requested(); }
  // 130 after SIGINT, 143 after SIGTERM. Requires: requested().
  int exit_code() const { return 128 + signal_.load(); }

 private:
  std::stop_source source_;
  std::atomic<int> signal_ = 0;
  std::thread watcher_;  // a handler may do next to nothing, so it only wakes this thread
  int read_fd_ = -1;     // of the pipe between them
};

}  // namespace nerf
