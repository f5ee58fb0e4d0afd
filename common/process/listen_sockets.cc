#include "common/process/listen_sockets.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/status_macros.h"

namespace nerf {
namespace {

absl::Status CannotListen(const std::string& address, std::string_view what) {
  return absl::FailedPreconditionError(fmt::format("cannot listen on {}: {}", address, what));
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
  if (colon == std::string::npos) return CannotListen(text, "it has no port");
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const bool is_wildcard = host == "0.0.0.0" || host == "::";
  const int error = getaddrinfo(is_wildcard ? nullptr : host.c_str(),
                                text.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return CannotListen(text, gai_strerror(error));
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

}  // namespace

absl::Status ListenError(const std::string& address, int error) {
  if (error != EADDRINUSE && error != EADDRNOTAVAIL) {
    return CannotListen(address, std::strerror(error));
  }
  return CannotListen(address, "the address is in use or not one of this machine's");
}

absl::StatusOr<ListenSockets> ListenAtHost(const std::string& listen) {
  NERF_ASSIGN_OR_RETURN(std::vector<Address> addresses, Resolve(listen));
  ListenSockets listening;
  int error = 0;
  for (Address& address : addresses) {
    if (listening.port != 0) SetPort(address, listening.port);
    UniqueFd socket(ListenOn(address));
    if (!socket.ok()) {
      error = errno;
      // A machine without IPv6, or a name with addresses that are not of this machine.
      if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) continue;
      return ListenError(listen, error);
    }
    listening.port = PortOf(socket.get());
    listening.sockets.push_back(std::move(socket));
  }
  if (listening.sockets.empty()) return ListenError(listen, error);
  return listening;
}

absl::StatusOr<UniqueFd> ListenAtPath(const std::string& path) {
  Address address;
  auto* name = reinterpret_cast<sockaddr_un*>(&address.bytes);
  if (path.empty() || path.size() >= sizeof(name->sun_path)) {
    return CannotListen("unix:" + path, "the path is empty or too long");
  }
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof(sockaddr_un);
  UniqueFd socket(ListenOn(address));
  if (!socket.ok() && errno == EADDRINUSE && IsStale(address)) {
    unlink(path.c_str());
    socket = UniqueFd(ListenOn(address));
  }
  if (!socket.ok()) return ListenError("unix:" + path, errno);
  return socket;
}

}  // namespace nerf
