#include "server/rpc/connections/connection_acceptor.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files/file_io.h"
#include "common/logging.h"
#include "common/process/listen_sockets.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kRetryMs = 50;      // after accept failed for lack of descriptors or memory
constexpr int kLookMs = 5;        // while there is a crowd
constexpr int kMaxCrowdMs = 500;  // then connections are accepted all the same
constexpr int kFullPauseMs = 50;
constexpr int kMaxInTurn = 512;  // of an address; then the others are looked at
constexpr absl::Duration kLogInterval = absl::Seconds(10);

bool IsLackOfResources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Whether the client has closed it while it waited.
bool HasGone(int fd) {
  pollfd end{fd, POLLRDHUP, 0};
  return poll(&end, 1, 0) > 0;
}

}  // namespace

struct ConnectionAcceptor::State {
  ~State() {
    Close();
    if (wake >= 0) close(wake);
  }

  void Close() {
    listeners.clear();
    if (!path.empty()) unlink(path.c_str());
  }

  absl::Status Listen() {
    const std::string& listen = options.listen;
    if (!listen.starts_with(kUnixPrefix)) {
      NERF_ASSIGN_OR_RETURN(ListenSockets listening, ListenAtHost(listen));
      listeners = std::move(listening.sockets);
      port = listening.port;
      return absl::OkStatus();
    }
    const std::string file = listen.substr(kUnixPrefix.size());
    NERF_ASSIGN_OR_RETURN(UniqueFd socket, ListenAtPath(file));
    listeners.push_back(std::move(socket));
    path = file;
    return absl::OkStatus();
  }

  void Run() {
    std::vector<pollfd> polled;
    polled.push_back({wake, POLLIN, 0});
    for (const UniqueFd& fd : listeners) polled.push_back({fd.get(), POLLIN, 0});
    bool waits = false;  // for descriptors
    while (true) {
      poll(polled.data(), waits ? 1 : polled.size(), waits ? kRetryMs : -1);
      if ((polled[0].revents & POLLIN) != 0) return;
      waits = false;
      for (const UniqueFd& fd : listeners) waits = !AcceptAll(fd.get(), polled[0]) || waits;
    }
  }

  // Waits while it must, while there is a crowd and some of `patience_ms` is left, and a moment if
  // the server is full. False at the end.
  bool AwaitRoom(pollfd wake, int& patience_ms) const {
    while (options.must_wait && options.must_wait()) {
      if (poll(&wake, 1, kLookMs) > 0) return false;
    }
    for (; options.is_crowded && options.is_crowded() && patience_ms > 0; patience_ms -= kLookMs) {
      if (poll(&wake, 1, kLookMs) > 0) return false;
    }
    return !options.is_full || !options.is_full() || poll(&wake, 1, kFullPauseMs) <= 0;
  }

  // False if it has to be tried again after a pause.
  bool AcceptAll(int listener, pollfd wake) {
    int patience_ms = kMaxCrowdMs;
    for (int n = 0; n < kMaxInTurn; ++n) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        const int error = errno;
        if (error == EINTR || error == ECONNABORTED) continue;
        if (!IsLackOfResources(error)) return true;
        LogRefused(std::strerror(error));
        return false;
      }
      // The kernel gives the lowest free number, so this counts the open ones.
      if (fd >= options.max_descriptor) {
        close(fd);
        LogRefused("too many connections");
        continue;
      }
      if (HasGone(fd)) {
        close(fd);
        continue;
      }
      if (!AwaitRoom(wake, patience_ms)) {
        close(fd);
        return true;
      }
      const int on = 1;
      if (path.empty()) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      take(listener, fd);
    }
    return true;
  }

  void LogRefused(std::string_view why) {
    ++n_refused;
    if (absl::Now() < next_log) return;
    next_log = absl::Now() + kLogInterval;
    LogWarning("connections are not accepted",
               {{"error", why}, {"count", std::exchange(n_refused, 0)}});
  }

  ConnectionAcceptorOptions options;
  std::string path;  // of the unix socket; empty for none
  int port = 0;
  std::vector<UniqueFd> listeners;
  int wake = -1;
  Take take;
  std::thread thread;
  // Used on the thread.
  int n_refused = 0;  // since the last log line
  absl::Time next_log = absl::InfinitePast();
};

ConnectionAcceptor::ConnectionAcceptor(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const ConnectionAcceptorOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  NERF_RETURN_IF_ERROR(state->Listen());
  state->wake = eventfd(0, EFD_CLOEXEC);
  if (state->wake < 0) return ListenError(options.listen, errno);
  return std::unique_ptr<ConnectionAcceptor>(new ConnectionAcceptor(std::move(state)));
}

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

void ConnectionAcceptor::Start(Take take) {
  state_->take = std::move(take);
  state_->thread = std::thread([this] { state_->Run(); });
}

void ConnectionAcceptor::Stop() {
  if (state_->thread.joinable()) {
    eventfd_write(state_->wake, 1);
    state_->thread.join();
  }
  state_->Close();
}

int ConnectionAcceptor::port() const { return state_->port; }

}  // namespace nerf
