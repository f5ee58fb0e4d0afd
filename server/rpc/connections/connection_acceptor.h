#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace nerf {

struct ConnectionAcceptorOptions {
  std::string listen;  // host:port or unix:PATH; port 0 takes a free one
  // Connections that would get a descriptor of this number or a higher one are closed at once, so
  // that descriptors for files are left.
  int max_descriptor = 4096;
  // While it returns true, connections are handed on slowly, and wait in the kernel. May be empty.
  std::function<bool()> is_crowded = {};
  // While it returns true, connections are handed on one by one, kFullPauseMs apart. May be empty.
  std::function<bool()> is_full = {};
  // While it returns true, none is handed on. It becomes false by itself, soon. May be empty.
  std::function<bool()> must_wait = {};
};

// Listens on an address and hands every accepted connection to gRPC. gRPC 1.51 stops to listen for
// good when accept fails for lack of descriptors; this goes on as soon as there are some.
class ConnectionAcceptor {
 public:
  // Takes a connected socket, which does not block, and its listener's.
  using Take = std::function<void(int listener, int socket)>;

  // Listens. Connections wait until Start. FailedPrecondition if the address cannot be had.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(
      const ConnectionAcceptorOptions& options);
  // Stops.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // Accepts on a thread of its own from now on. Call once.
  void Start(Take take);
  // Stops to accept and closes the listening sockets. May be repeated.
  void Stop();

  int port() const;  // 0 for a unix socket

 private:
  struct State;
  explicit ConnectionAcceptor(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace nerf
