#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace nerf {

// SIGINT and SIGTERM as a stop token. The first signal requests the stop; the second ends the
// process at once with the same exit code. Thread-safe.
class Interrupt {
 public:
  Interrupt() = default;
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Handles both signals until destroyed. For at most one object per process.
  void InstallHandlers();

  // Requests the stop as `signal` (SIGINT or SIGTERM) would.
  void Request(int signal);

  std::stop_token token() const { return source_.get_token(); }
  bool requested() const { return source_.stop_requested(); }

  // While one exists, a second signal does not end the process: what the first one has ended cleans
  // up. For at most one object per process.
  class PatientScope {
   public:
    PatientScope();
    ~PatientScope();
    PatientScope(const PatientScope&) = delete;
    PatientScope& operator=(const PatientScope&) = delete;
  };

  // 130 after SIGINT, 143 after SIGTERM. Requires: requested().
  int exit_code() const { return 128 + signal_.load(); }

 private:
  std::stop_source source_;
  std::atomic<int> signal_ = 0;
  std::thread watcher_;  // does the work: a signal handler may only write to a pipe
  int read_fd_ = -1;     // of the pipe between them
};

}  // namespace nerf
