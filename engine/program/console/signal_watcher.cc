#include "engine/program/console/signal_watcher.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "engine/base/check.h"

namespace nerf {

SignalWatcher::SignalWatcher() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  NERF_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  NERF_CHECK(signal_fd_ >= 0 && end_fd_ >= 0);
  thread_ = std::thread([this] { Watch(); });
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  NERF_CHECK(write(end_fd_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(signal_fd_);
  close(end_fd_);
}

void SignalWatcher::Watch() {
  while (true) {
    pollfd fds[2] = {{signal_fd_, POLLIN, 0}, {end_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (fds[1].revents != 0) return;
    signalfd_siginfo received = {};
    if (read(signal_fd_, &received, sizeof(received)) != sizeof(received)) continue;
    const int code = 128 + static_cast<int>(received.ssi_signo);
    if (source_.stop_requested()) {
      if (received.ssi_signo == SIGINT) _exit(code);
      continue;
    }
    exit_code_ = code;
    source_.request_stop();
  }
}

}  // namespace nerf
