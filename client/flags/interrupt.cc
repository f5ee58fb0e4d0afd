#include "client/flags/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace nerf {
namespace {

// State of the handler; write end of the pipe that wakes the watcher.
volatile sig_atomic_t signals_seen = 0;
volatile sig_atomic_t is_patient = 0;
int wake_fd = -1;

void OnSignal(int signal) {
  if (signals_seen != 0) {
    if (is_patient == 0) _exit(128 + signal);
    return;
  }
  signals_seen = 1;
  const int saved_errno = errno;
  const char byte = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = write(wake_fd, &byte, 1);
  errno = saved_errno;
}

}  // namespace

void Interrupt::InstallHandlers() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return;  // the default action still ends the process
  wake_fd = fds[1];
  read_fd_ = fds[0];
  watcher_ = std::thread([this] {
    char byte = 0;
    ssize_t n = 0;
    do {
      n = read(read_fd_, &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n == 1 && byte != 0) Request(byte);
  });
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Interrupt::~Interrupt() {
  if (!watcher_.joinable()) return;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(wake_fd, &byte, 1);
  watcher_.join();
  close(read_fd_);
  close(wake_fd);
  wake_fd = -1;
}

Interrupt::PatientScope::PatientScope() { is_patient = 1; }

Interrupt::PatientScope::~PatientScope() { is_patient = 0; }

void Interrupt::Request(int signal) {
  int none = 0;
  signal_.compare_exchange_strong(none, signal);
  source_.request_stop();
}

}  // namespace nerf
