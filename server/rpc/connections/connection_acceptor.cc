#include "server/rpc/connections/connection_acceptor.h"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/logging.h"
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

absl::Status ListenError(const std::string& address, std::string_view what) {
  return absl::FailedPreconditionError(fmt::format("cannot listen on {}: {}", address, what));
}

absl::Status ListenError(const std::string& address, int error) {
  if (error != EADDRINUSE && error != EADDRNOTAVAIL) {
    return ListenError(address, std::strerror(error));
  }
  return ListenError(address, "the address is in use or not one of this machine's");
}

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

void SetPort(Address& address, int port) {
  const auto bytes = htons(static_cast<uint16_t>(port));
  if (address.bytes.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_port = bytes;
  } else {
    reinterpret_cast<sockaddr_in6*>(&address.bytes)->sin6_port = bytes;
  }
}

int PortOf(int socket) {
  Address address;
  address.size = sizeof(address.bytes);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0)
    return 0;
  return address.bytes.ss_family == AF_INET
             ? ntohs(reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_port)
             : ntohs(reinterpret_cast<sockaddr_in6*>(&address.bytes)->sin6_port);
}

// The addresses that "host:port" names. A wildcard of either family stands for both.
absl::StatusOr<std::vector<Address>> Resolve(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return ListenError(text, "it has no port");
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const bool is_wildcard = host == "0.0.0.0" || host == "::";
  const int error = getaddrinfo(is_wildcard ? nullptr : host.c_str(),
                                text.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return ListenError(text, gai_strerror(error));
  std::vector<Address> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    Address& address = addresses.emplace_back();
    std::memcpy(&address.bytes, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

// A listening socket, or -1 with errno. An IPv6 wildcard leaves IPv4 to
// another socket.
int ListenOn(const Address& address) {
  const int family = address.bytes.ss_family;
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  // Connections of an earlier server may still have the address; a second listener still fails.
  if (family != AF_UNIX) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0 &&
      listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// True for the socket file of a server that is gone.
bool IsStale(const Address& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0 &&
      errno == ECONNREFUSED;
  close(fd);
  return refused;
}

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
    for (const int fd : listeners) close(fd);
    listeners.clear();
    if (!path.empty()) unlink(path.c_str());
  }

  absl::Status ListenAtPath(const std::string& listen) {
    path = listen.substr(kUnixPrefix.size());
    Address address;
    auto* name = reinterpret_cast<sockaddr_un*>(&address.bytes);
    if (path.empty() || path.size() >= sizeof(name->sun_path)) {
      path.clear();
      return ListenError(listen, "the path is empty or too long");
    }
    name->sun_family = AF_UNIX;
    std::memcpy(name->sun_path, path.c_str(), path.size() + 1);
    address.size = sizeof(sockaddr_un);
    int fd = ListenOn(address);
    if (fd < 0 && errno == EADDRINUSE && IsStale(address)) {
      unlink(path.c_str());
      fd = ListenOn(address);
    }
    if (fd < 0) {
      path.clear();  // the socket file is another server's: keep it
      return ListenError(listen, errno);
    }
    listeners.push_back(fd);
    return absl::OkStatus();
  }

  absl::Status ListenAtHost(const std::string& listen) {
    NERF_ASSIGN_OR_RETURN(std::vector<Address> addresses, Resolve(listen));
    int error = 0;
    for (Address& address : addresses) {
      if (port != 0) SetPort(address, port);
      const int fd = ListenOn(address);
      if (fd < 0) {
        error = errno;
        // A machine without IPv6, or a name with addresses that are not of this machine.
        if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) continue;
        return ListenError(listen, error);
      }
      listeners.push_back(fd);
      port = PortOf(fd);
    }
    if (listeners.empty()) return ListenError(listen, error);
    return absl::OkStatus();
  }

  void Run() {
    std::vector<pollfd> polled;
    polled.push_back({wake, POLLIN, 0});
    for (const int fd : listeners) polled.push_back({fd, POLLIN, 0});
    bool waits = false;  // for descriptors
    while (true) {
      poll(polled.data(), waits ? 1 : polled.size(), waits ? kRetryMs : -1);
      if ((polled[0].revents & POLLIN) != 0) return;
      waits = false;
      for (const int fd : listeners) waits = !AcceptAll(fd, polled[0]) || waits;
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
  std::vector<int> listeners;
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
  NERF_RETURN_IF_ERROR(options.listen.starts_with(kUnixPrefix)
                           ? state->ListenAtPath(options.listen)
                           : state->ListenAtHost(options.listen));
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
