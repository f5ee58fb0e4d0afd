#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace nerf {

// Passes the connections of an address on to the leader, as bytes: calls, streams, TLS and web
// pages reach it unchanged, with one connection of the leader's for each client's, so that its
// limits for a connection hold. A connection holds at most 32 KiB here. Thread-safe.
class Relay {
 public:
  struct Options {
    std::string host;  // an address or a name of this machine; 0.0.0.0 and :: stand for both
    int port = 0;      // 0 takes a free one
    int max_connections = 4096;  // one more an address at most; others wait in the kernel
  };
  // Listens. Connections wait in the kernel until there is a target. FailedPrecondition if the
  // address cannot be had.
  static absl::StatusOr<std::unique_ptr<Relay>> Start(const Options& options);
  // Closes everything.
  ~Relay();

  // Where connections go from now on, host:port. Those that went elsewhere are closed: their
  // clients come back. Empty: new ones wait, and those that are open stay.
  void SetTarget(const std::string& target);

  int port() const;

 private:
  class Impl;
  explicit Relay(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nerf
