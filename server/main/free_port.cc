#include "server/main/free_port.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>

#include "common/files/file_io.h"

namespace nerf {
namespace {

constexpr int kMaxMoves = 20;
constexpr int kLastPort = 65535;

bool IsTaken(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0)
    return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  return bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno == EADDRINUSE;
}

}  // namespace

ListenAddress FirstFree(ListenAddress address) {
  ListenAddress moved = address;
  for (int i = 0; i <= kMaxMoves && moved.port <= kLastPort; ++i, ++moved.port) {
    if (!IsTaken(moved)) return moved;
  }
  return address;
}

}  // namespace nerf
